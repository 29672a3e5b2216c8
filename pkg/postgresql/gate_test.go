package postgresql

import (
	"errors"
	"testing"
	"time"
)

// callers are those who want to connect to one server.
type callers struct {
	t    *testing.T
	gate *gate
	now  time.Time
}

func newCallers(t *testing.T) *callers {
	c := &callers{t: t, now: time.Unix(0, 0)}
	c.gate = newGate(func() time.Time { return c.now })
	return c
}

// comes is a caller who is let in.
func (c *callers) comes() (leave func(error)) {
	c.t.Helper()
	leave, err := c.gate.enter("db:5432")
	if err != nil {
		c.t.Fatalf("not let in: %v", err)
	}
	return leave
}

// isTold is a caller who is not let in.
func (c *callers) isTold(class Class) {
	c.t.Helper()
	if _, err := c.gate.enter("db:5432"); ClassOf(err) != class || err == nil {
		c.t.Errorf("wanted to be told %s, was told %v", class, err)
	}
}

var errAway = NewError(Away, "no answer")

func TestOneFindsOutAboutAServer(t *testing.T) {
	c := newCallers(t)
	first := c.comes()
	c.isTold(Busy)
	if _, err := c.gate.enter("other:5432"); err != nil {
		t.Errorf("another server is busy too: %v", err)
	}
	first(nil)
	second, third := c.comes(), c.comes() // it answers, so that all may
	second(nil)
	third(nil)
}

func TestAServerThatIsAwayIsLeftAloneForAWhile(t *testing.T) {
	c := newCallers(t)
	c.comes()(errAway)
	c.isTold(Away)
	c.now = c.now.Add(awayFor - 1)
	c.isTold(Away)
	c.now = c.now.Add(1)
	again := c.comes()
	c.isTold(Busy)
	again(errAway)
	c.isTold(Away)
	c.now = c.now.Add(awayFor)
	c.comes()(nil)
	c.comes()(nil)
}

func TestAnAnswerIsAnAnswerWhateverItSays(t *testing.T) {
	c := newCallers(t)
	c.comes()(NewError(Refused, "wrong password"))
	first, second := c.comes(), c.comes()
	first(errors.New("something else"))
	second(nil)
}

func TestNobodyJoinsThoseWhoWaitForLong(t *testing.T) {
	c := newCallers(t)
	c.comes()(nil)
	first, second := c.comes(), c.comes()
	c.now = c.now.Add(patience + 1)
	c.isTold(Busy)
	first(nil) // it answers still
	c.comes()
	second(errAway)
	c.isTold(Away)
}
