package traffic

import "time"

// A pace limits how often a client does something. It doesn't catch up on time lost while servers didn't answer.
type pace struct {
	interval time.Duration // 0 means no bound
	next     time.Time
}

func newPace(perSecond float64) *pace {
	if perSecond <= 0 {
		return &pace{}
	}
	return &pace{interval: time.Duration(float64(time.Second) / perSecond), next: time.Now()}
}

// wait waits until the next action is due.
func (p *pace) wait() {
	if p.interval == 0 {
		return
	}
	now := time.Now()
	if p.next.After(now) {
		time.Sleep(p.next.Sub(now))
	} else {
		p.next = now
	}
	p.next = p.next.Add(p.interval)
}
