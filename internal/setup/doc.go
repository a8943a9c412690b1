// Package setup writes the files that new servers begin with: configurations with comments, ids,
// the ensemble's secret, and certificates of an authority of their own. It never writes over a
// file.
package setup
