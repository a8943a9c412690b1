package subtree

import "cmp"

// InParallel applies f to all of in at once, and returns the first error.
func InParallel[T, R any](in []T, f func(T) (R, error)) ([]R, error) {
	out, errs := make([]R, len(in)), make([]error, len(in))
	done := make(chan int)
	for i := range in {
		go func() {
			out[i], errs[i] = f(in[i])
			done <- i
		}()
	}
	for range in {
		<-done
	}
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return out, nil
}
