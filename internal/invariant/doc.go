// Package invariant checks what the core relies on inside: the head of a queue, the order of numbers, which locks are
// held, and in which order they are taken. A check that fails panics, since what follows from a broken invariant is not
// known.
//
// The checks are compiled in under the build tag invariants, which `make sim` sets, and with the race detector. In
// other programs Checked is false, the functions are empty, and the types are those of package sync or have no size, so
// a check costs nothing there. A check whose arguments take time to compute stands behind `if invariant.Checked`.
package invariant
