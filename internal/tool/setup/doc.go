// Package setup writes the files that new servers start from: commented configurations, ids, the
// ensemble's secret, and certificates issued by an authority of their own. It never overwrites a
// file.
package setup
