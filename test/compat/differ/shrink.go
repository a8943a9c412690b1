package differ

import "slices"

// shrink returns a shorter script that still fails: it first removes steps, in halves and then in smaller parts, and
// then simplifies arguments. fails plays a script and reports whether it fails; it is called at most tries times.
func shrink(steps []step, tries int, fails func([]step) bool) []step {
	try := func(candidate []step) bool {
		tries--
		return tries >= 0 && fails(candidate)
	}
	for before := -1; before != len(steps) && tries > 0; {
		before = len(steps)
		for size := max(1, len(steps)/2); size > 0; size /= 2 {
			for at := len(steps) - size; at >= 0; at -= size {
				if candidate := slices.Delete(slices.Clone(steps), at, at+size); try(candidate) {
					steps = candidate
					at = min(at, len(steps))
				}
			}
		}
	}
	for i := range steps {
		steps = plainer(steps, i, try)
	}
	return steps
}

// plainer simplifies one step while the script still fails.
func plainer(steps []step, i int, try func([]step) bool) []step {
	change := func(edit func(s *step)) bool {
		candidate := slices.Clone(steps)
		s := candidate[i]
		s.args, s.subs = slices.Clone(s.args), cloneSubs(s.subs)
		edit(&s)
		candidate[i] = s
		if !try(candidate) {
			return false
		}
		steps = candidate
		return true
	}
	for k := len(steps[i].subs) - 1; k >= 0; k-- {
		change(func(s *step) { s.subs = slices.Delete(s.subs, k, k+1) })
	}
	for k := range steps[i].subs {
		for j := range steps[i].subs[k].args {
			for _, v := range plainerValues(steps[i].subs[k].args[j]) {
				if change(func(s *step) { s.subs[k].args[j] = v }) {
					break
				}
			}
		}
	}
	if steps[i].more != "" {
		change(func(s *step) { s.more = "" })
	}
	if steps[i].cut != 0 {
		change(func(s *step) { s.cut = 0 })
	}
	if steps[i].xid != 0 {
		change(func(s *step) { s.xid = 0 })
	}
	for j := range steps[i].args {
		if steps[i].word == "connect" {
			break
		}
		for _, v := range plainerValues(steps[i].args[j]) {
			if change(func(s *step) { s.args[j] = v }) {
				break
			}
		}
	}
	return steps
}

func cloneSubs(subs []step) []step {
	subs = slices.Clone(subs)
	for i := range subs {
		subs[i].args = slices.Clone(subs[i].args)
	}
	return subs
}

// plainerValues returns simpler values to try, the simplest first.
func plainerValues(v value) []value {
	switch {
	case v.null:
		return nil
	case len(v.list) > 1:
		var parts []value
		for i := range v.list {
			parts = append(parts, value{list: v.list[i : i+1]})
		}
		return append([]value{{list: []string{}}, {list: []string{worldAll}}}, parts...)
	case len(v.list) == 1 && v.list[0] != worldAll:
		return []value{{list: []string{}}, {list: []string{worldAll}}}
	case len(v.text) > 2 && v.text[0] == '~':
		return []value{{text: "~"}, {text: "~/a"}}
	case v.text != "" && v.text[0] != '~' && v.text[0] != '/':
		return []value{{}}
	case v.n == 1 || v.n == 0:
		return nil
	case v.text == "":
		return []value{{}}
	}
	return nil
}
