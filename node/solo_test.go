package node

import (
	"slices"
	"testing"
)

// solo is one node alone; the test plays all others, message by message.
type solo struct {
	tb       testing.TB
	n        *Node
	now      Instant
	incs     map[string]Incarnation // of the others
	sessions map[string]uint64      // this node's session at a member
	votes    map[string]Vote
	events   []Event
	out      []Message // what the last step sent, KeepAlives and their answers left out
	all      []Message // the same with them
}

// newSolo starts the node called name, among n members or as their client.
func newSolo(tb testing.TB, name string, n int, change func(*Config)) *solo {
	tb.Helper()
	s := &solo{tb: tb, now: 1_000_000, incs: map[string]Incarnation{}, sessions: map[string]uint64{}, votes: map[string]Vote{}}
	cfg := testConfig(name, letters(n))
	if change != nil {
		change(&cfg)
	}
	var err error
	if s.n, err = New(cfg, s.now, int64(s.now)); err != nil {
		tb.Fatal(err)
	}
	s.take()
	return s
}

// newMember is a member b of three, past its quarantine and with its floors known.
func newMember(tb testing.TB, change func(*Config)) *solo {
	tb.Helper()
	s := newSolo(tb, "b", 3, change)
	s.wait(s.n.tm.quarantine)
	for _, name := range []string{"a", "c"} {
		s.answer(name, Message{Type: MsgFloors, Round: s.n.floors.round, OK: true})
	}
	return s
}

func (s *solo) take() []Message {
	s.tb.Helper()
	out := s.n.Take()
	s.events = append(s.events, slices.Clone(out.Events)...)
	s.out, s.all = nil, slices.Clone(out.Messages)
	for i := range s.all {
		if t := s.all[i].Type; t != MsgKeepAlive && t != MsgKeepAliveAck && t != MsgReadFloors {
			s.out = append(s.out, s.all[i])
		}
	}
	if err := checkInvariants(s.n); err != nil {
		s.tb.Fatalf("at %d: %v", s.now, err)
	}
	return s.out
}

// wait lets d pass, with ticks when the node wants them, and returns what was sent.
func (s *solo) wait(d Duration) []Message {
	s.tb.Helper()
	var out, all []Message
	for end := s.now.Add(d); s.now < end; {
		s.now = min(end, max(s.n.Wake(), s.now+1))
		s.n.Tick(s.now)
		out = append(out, s.take()...)
		all = append(all, s.all...)
	}
	s.out, s.all = out, all
	return out
}

func (s *solo) inc(name string) Incarnation {
	if i, ok := s.incs[name]; ok {
		return i
	}
	return Incarnation{Start: 2, Random: 2}
}

// fill completes the header of a message to the node from another one.
func (s *solo) fill(name string, m Message) Message {
	m.From, m.To, m.Fingerprint = name, s.n.cfg.Name, s.n.fingerprint
	if m.FromIncarnation.IsZero() {
		m.FromIncarnation = s.inc(name)
	}
	if m.ToIncarnation.IsZero() {
		m.ToIncarnation = s.n.inc
	}
	if m.Timestamp == 0 {
		m.Timestamp = 1
	}
	return m
}

// ask sends the node a message from a requester of that name.
func (s *solo) ask(name string, m Message) []Message {
	s.tb.Helper()
	m = s.fill(name, m)
	if m.Sent == 0 {
		m.Sent = s.now
	}
	if m.ID.Counter != 0 && m.ID.Incarnation.IsZero() {
		m.ID.Incarnation = m.FromIncarnation
	}
	s.n.Step(s.now, m)
	return s.take()
}

// request asks for the lock "L".
func (s *solo) request(name string, id uint64, time Timestamp) []Message {
	s.tb.Helper()
	return s.ask(name, Message{Type: MsgRequest, Lock: "L", ID: RequestID{Counter: id}, RequestTime: time})
}

func (s *solo) release(name string, id uint64) []Message {
	s.tb.Helper()
	return s.ask(name, Message{Type: MsgRelease, Lock: "L", ID: RequestID{Counter: id}})
}

func (s *solo) keepAlive(names ...string) {
	s.tb.Helper()
	for _, name := range names {
		s.ask(name, Message{Type: MsgKeepAlive})
	}
}

// answer sends the node an answer from a member, which echoes the present moment
// unless the message says otherwise.
func (s *solo) answer(name string, m Message) []Message {
	s.tb.Helper()
	m = s.fill(name, m)
	if m.Echo == 0 {
		m.Echo = s.now
	}
	if m.Session == 0 {
		m.Session = max(1, s.sessions[name])
	}
	if m.Vote == VoteNone {
		m.Vote = s.votes[name]
	}
	s.n.Step(s.now, m)
	return s.take()
}

// grant answers the request that the node makes for "L".
func (s *solo) grant(name string, number uint64) []Message {
	s.tb.Helper()
	return s.answer(name, Message{Type: MsgGrant, Lock: "L", ID: s.id(), Number: number})
}

// id is the id of the node's request for "L".
func (s *solo) id() RequestID {
	s.tb.Helper()
	l := s.n.locals["L"]
	if l == nil || l.req == nil {
		s.tb.Fatal("the node makes no request")
	}
	return RequestID{s.n.inc, l.req.id}
}

// ack answers the KeepAlives of the node.
func (s *solo) ack(names ...string) {
	s.tb.Helper()
	for _, name := range names {
		s.answer(name, Message{Type: MsgKeepAliveAck})
	}
}

func (s *solo) lock(call CallID, opt CallOptions) []Message {
	s.tb.Helper()
	s.n.Lock(s.now, call, "L", opt)
	return s.take()
}

func (s *solo) acquired(call CallID) bool { return findEvent(s.events, EventAcquired, call) != nil }
func (s *solo) lost(call CallID) bool     { return findEvent(s.events, EventLost, call) != nil }

// to returns the messages of that type that were sent to a node.
func to(out []Message, name string, which MessageType) []Message {
	var found []Message
	for i := range out {
		if out[i].To == name && out[i].Type == which {
			found = append(found, out[i])
		}
	}
	return found
}

// one returns the only message of that type to a node.
func (s *solo) one(out []Message, name string, which MessageType) Message {
	s.tb.Helper()
	found := to(out, name, which)
	if len(found) != 1 {
		s.tb.Fatalf("want one %v to %s, got %d of %d messages: %v", which, name, len(found), len(out), shows(out))
	}
	return found[0]
}

// none fails when a message of that type was sent to a node.
func (s *solo) none(out []Message, name string, which MessageType) {
	s.tb.Helper()
	if len(to(out, name, which)) > 0 {
		s.tb.Fatalf("want no %v to %s, got %v", which, name, shows(out))
	}
}

func shows(out []Message) []string {
	var lines []string
	for i := range out {
		lines = append(lines, show(&out[i]))
	}
	return lines
}

// waitWith is wait while the given members answer each KeepAlive at once.
func (s *solo) waitWith(d Duration, names ...string) []Message {
	s.tb.Helper()
	var out []Message
	for end := s.now.Add(d); s.now < end; {
		s.now = min(end, max(s.n.Wake(), s.now+1))
		s.n.Tick(s.now)
		out = append(out, s.take()...)
		for _, m := range s.all {
			if m.Type == MsgKeepAlive {
				for _, name := range names {
					if m.To == name {
						s.ack(name)
						out = append(out, s.out...)
					}
				}
			}
		}
	}
	s.out = out
	return out
}

// newClient is a client of n members that have all answered it once and vote for the
// tree.
func newClient(tb testing.TB, n int, change func(*Config)) *solo {
	tb.Helper()
	s := newSolo(tb, "x", n, change)
	for _, name := range letters(n) {
		s.votes[name] = VoteTree
		s.ack(name)
	}
	return s
}

// newHolder is a client of three members that holds "L" by grants of a and b.
func newHolder(tb testing.TB) *solo {
	tb.Helper()
	s := newClient(tb, 3, nil)
	s.lock(1, CallOptions{})
	s.grant("a", 11)
	s.grant("b", 12)
	if !s.acquired(1) {
		tb.Fatal("want the lock by the grants of a and b")
	}
	return s
}

func (s *solo) failed(call CallID) (Failure, bool) {
	if e := findEvent(s.events, EventFailed, call); e != nil {
		return e.Failure, true
	}
	return 0, false
}
