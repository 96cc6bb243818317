package node

import (
	"testing"
)

// Section 1: "Every message carries a fingerprint … A difference is a clear error on both
// sides and nothing else".
func TestR29_OtherConfigurationIsRefused(t *testing.T) {
	s := newMember(t, nil)
	send := func(m Message) []Message {
		m = s.fill("a", m)
		m.Fingerprint, m.Sent, m.RequestTime = 4711, s.now, 1
		s.n.Step(s.now, m)
		return s.take()
	}
	id := RequestID{s.inc("a"), 1}
	for _, which := range []MessageType{MsgRequest, MsgKeepAlive, MsgReadFloors} {
		m := s.one(send(Message{Type: which, Lock: "L", ID: id}), "a", MsgNotReady)
		if m.Reason != ReasonFingerprint || m.Lock != "L" || m.ID != id || m.ToIncarnation != s.inc("a") {
			t.Errorf("%v: want NotReady for another fingerprint, got %+v", which, m)
		}
	}
	for which := MsgRequest; which < maxMessageType; which++ {
		if which == MsgRequest || which == MsgKeepAlive || which == MsgReadFloors {
			continue
		}
		if out := send(Message{Type: which, Lock: "L", ID: id}); len(out) > 0 {
			t.Errorf("%v: want silence, or two nodes would refuse each other for ever, got %v", which, shows(out))
		}
	}
	if s.n.locks["L"] != nil {
		t.Error("a request of another configuration is kept")
	}
	told := 0
	for _, e := range s.events {
		if e.Type == EventPeerDiffers && e.Peer == "a" {
			told++
		}
	}
	if told != 1 || !s.n.Status(s.now).Peers[0].Differs || s.n.Status(s.now).Peers[0].Up {
		t.Errorf("want to be told once that a differs, and a not up; told %d times, %+v", told, s.n.Status(s.now).Peers[0])
	}
	s.keepAlive("a")
	if s.n.Status(s.now).Peers[0].Differs {
		t.Error("want a to be one of us again when it says so")
	}
}

// Section 5: a call "fails at once only for … another fingerprint".
func TestR29_LockFailsAmongOthers(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{})
	s.n.PeerDiffers(s.now, "a")
	s.take()
	if _, ok := s.failed(1); ok {
		t.Error("failed though a majority is of this configuration")
	}
	s.n.PeerDiffers(s.now, "b")
	s.take()
	e := findEvent(s.events, EventFailed, 1)
	if e == nil || e.Failure != FailDiffers || len(e.Facts.Differs) != 2 {
		t.Errorf("want the call failed, a and b differing, got %+v", e)
	}
	s.lock(2, CallOptions{})
	if failure, ok := s.failed(2); !ok || failure != FailDiffers {
		t.Errorf("want the next call failed at once, got %v, %v", failure, ok)
	}
}

// "… the hash of protocol version, cluster name, sorted member names (no addresses), T, d,
// rotation setting, TreeOnly."
func TestR29_FingerprintSeesEachSetting(t *testing.T) {
	fingerprint := func(change func(*Config)) uint64 {
		cfg := testConfig("a", letters(3))
		change(&cfg)
		n, err := New(cfg, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		return n.fingerprint
	}
	same := fingerprint(func(*Config) {})
	for name, change := range map[string]func(*Config){
		"cluster":  func(c *Config) { c.Cluster = "other" },
		"members":  func(c *Config) { c.Members = []string{"a", "b", "d"} },
		"one more": func(c *Config) { c.Members = letters(4) },
		"joined":   func(c *Config) { c.Members = []string{"ab", "c"} },
		"T":        func(c *Config) { c.LeaseTTL++ },
		"d":        func(c *Config) { c.Drift++ },
		"rotation": func(c *Config) { c.NoRotation = false },
		"TreeOnly": func(c *Config) { c.TreeOnly = true },
	} {
		if fingerprint(change) == same {
			t.Errorf("%s: want another fingerprint", name)
		}
	}
	for name, change := range map[string]func(*Config){
		"order":       func(c *Config) { c.Members = []string{"c", "a", "b"} },
		"name":        func(c *Config) { c.Name = "b" },
		"incarnation": func(c *Config) { c.Incarnation.Start++ },
		"limits":      func(c *Config) { c.Limits.Queue = 7 },
	} {
		if fingerprint(change) != same {
			t.Errorf("%s: want the same fingerprint", name)
		}
	}
}

// Section 1: "When a peer reports a higher one within T(1+d) of the start, the node takes a
// still higher first part and new random bits, and begins anew as a requester (new ids,
// nothing held)."
func TestR30_HigherIncarnationSoonAfterTheStart(t *testing.T) {
	higher := Incarnation{Start: 1 << 60, Random: 3}
	s := newHolder(t)
	before := s.id()
	s.lock(2, CallOptions{})
	out := s.answer("c", Message{Type: MsgNotReady, Reason: ReasonOldIncarnation, Other: higher})
	if s.n.inc.Start <= higher.Start || s.n.inc.Random == 7 {
		t.Errorf("want an incarnation above %v with new random bits, got %v", higher, s.n.inc)
	}
	if e := findEvent(s.events, EventLost, 1); e == nil || e.Loss != LossReplaced {
		t.Errorf("want the lease lost as replaced, got %+v", e)
	}
	s.none(out, "a", MsgRelease) // it would not be of the incarnation that asked
	m := s.one(out, "a", MsgRequest)
	if m.FromIncarnation != s.n.inc || m.ID.Incarnation != s.n.inc || m.ID.Counter <= before.Counter {
		t.Errorf("want call 2 to ask anew, got %+v", m)
	}
	s.grant("a", 1)
	s.grant("b", 1)
	if !s.acquired(2) || findEvent(s.events, EventRestarted, 0) == nil {
		t.Error("want the lock for call 2 under the new incarnation, and to be told")
	}
	s.answer("c", Message{Type: MsgKeepAliveAck, Other: Incarnation{Start: 5}}) // lower
	if s.lost(2) {
		t.Error("a lower incarnation must not matter")
	}
}

// "A higher one reported later means that another process runs under this name: stop with
// an error that says so."
func TestR30_HigherIncarnationLaterStopsTheNode(t *testing.T) {
	s := newHolder(t)
	s.waitWith(s.n.tm.quarantine+1, "a", "b", "c")
	s.lock(2, CallOptions{})
	out := s.answer("c", Message{Type: MsgKeepAliveAck, Other: Incarnation{Start: 1 << 60}})
	s.one(out, "a", MsgRelease)
	if e := findEvent(s.events, EventLost, 1); e == nil || e.Loss != LossReplaced {
		t.Errorf("want the lease lost as replaced, got %+v", e)
	}
	if _, ok := s.failed(2); !ok || findEvent(s.events, EventReplaced, 0) == nil || !s.n.Status(s.now).Stopped {
		t.Error("want the waiting call failed, and to be told to stop")
	}
	s.lock(3, CallOptions{})
	if failure, ok := s.failed(3); !ok || failure != FailClosed {
		t.Errorf("want later calls failed as closed, got %v, %v", failure, ok)
	}
	s.wait(3 * oneT)
	said := s.all
	if said = append(said, s.ask("y", Message{Type: MsgRequest})...); len(said) > 0 {
		t.Errorf("want a stopped node to say nothing, got %v", shows(said))
	}
}

// A clock that was set back: the process starts below its own former incarnation, which
// the members remember.
func TestR30_StartBelowTheFormerIncarnation(t *testing.T) {
	c := readyCluster(t, 3, nil)
	c.crash("a")
	former := c.nodes["b"].peers[0].inc
	c.change = func(cfg *Config) { cfg.Incarnation.Start = 1 }
	c.start("a")
	c.run(3 * oneT)
	if c.nodes["a"].inc.Compare(former) <= 0 {
		t.Errorf("want an incarnation above %v, got %v", former, c.nodes["a"].inc)
	}
	call := c.lock("a", "L")
	c.run(oneT)
	c.mustAcquire("a", call)
}

// Two processes under one name: the former is told, and stops.
func TestR30_OtherProcessUnderTheName(t *testing.T) {
	c := readyCluster(t, 3, nil)
	first := c.nodes["a"]
	held := c.lock("a", "L")
	c.run(5 * Millisecond)
	c.mustAcquire("a", held)
	c.start("a") // the other process; answers for "a" go to it from now on
	second := c.nodes["a"]
	c.run(10 * Millisecond)
	c.nodes["a"] = first // which is still there, and speaks again
	c.run(oneT)
	if !first.stopped || c.event("a", EventLost, held) == nil {
		t.Error("want the former process stopped, its lease lost")
	}
	c.nodes["a"] = second
	c.run(3 * oneT)
	if second.stopped {
		t.Error("want the later process to go on")
	}
}

// Section 3: "Timestamps are a hybrid logical clock: never behind any timestamp seen, close
// to wall time when clocks agree … (One above 2^62 ns is an error …)"
func TestR31_TimestampsFollowThoseSeen(t *testing.T) {
	s := newClient(t, 3, nil)
	s.n.SetWall(s.now, 5_000_000)
	first := s.one(s.lock(1, CallOptions{}), "a", MsgRequest)
	if first.RequestTime < 5_000_000 || first.RequestTime > 5_000_100 {
		t.Errorf("want a timestamp close to the wall clock, got %d", first.RequestTime)
	}
	s.n.Cancel(s.now, 1)
	s.take()
	for i, m := range []Message{
		{Type: MsgKeepAliveAck, Timestamp: 9_000_000_000_000},
		{Type: MsgKeepAliveAck, RequestTime: 9_500_000_000_000},
	} {
		s.answer("a", m)
		call := CallID(10 + i)
		r := s.one(s.lock(call, CallOptions{}), "a", MsgRequest)
		if seen := max(m.Timestamp, m.RequestTime); r.RequestTime <= seen || r.Timestamp <= seen {
			t.Errorf("want a timestamp above %d, got %d, sent at %d", seen, r.RequestTime, r.Timestamp)
		}
		s.n.Cancel(s.now, call)
		s.take()
	}
	last := s.n.clock
	s.n.SetWall(s.now, 5) // set back
	if got := s.n.stamp(); got <= last {
		t.Errorf("want a timestamp above %d though the wall clock was set back, got %d", last, got)
	}
}

func TestR31_TimestampsHaveARange(t *testing.T) {
	for _, m := range []Message{
		{Timestamp: MaxTimestamp + 1},
		{Timestamp: -1},
		{RequestTime: MaxTimestamp + 1},
		{RequestTime: -1},
		{FromIncarnation: Incarnation{Start: 1<<62 + 1}},
		{Other: Incarnation{Start: 1<<62 + 1}},
	} {
		s := newMember(t, nil)
		clock := s.n.clock
		s.events = nil
		m.Type, m.Lock, m.ID.Counter = MsgRequest, "L", 1
		if out := s.ask("x", m); len(out) > 0 || s.n.clock != clock {
			t.Errorf("%+v: want it dropped, got %v", m, shows(out))
		}
		if len(s.events) != 1 || s.events[0].Type != EventDropped || s.events[0].Peer != "x" || s.events[0].Text == "" {
			t.Errorf("want to be told why, got %+v", s.events)
		}
	}
	s := newMember(t, nil)
	s.request("x", 1, MaxTimestamp)
	if s.n.stamp() != MaxTimestamp {
		t.Errorf("want the clock to stay at its highest reading, got %d", s.n.clock)
	}
}

func TestClientRefuses(t *testing.T) {
	s := newClient(t, 3, nil)
	for _, which := range []MessageType{MsgRequest, MsgKeepAlive, MsgReadFloors} {
		if m := s.one(s.ask("y", Message{Type: which}), "y", MsgNotReady); m.Reason != ReasonNotMember {
			t.Errorf("want a client to refuse %v, got %v", which, m.Reason)
		}
	}
	if out := s.ask("y", Message{Type: MsgGoodbye}); len(out) > 0 || len(s.n.sessions) > 0 {
		t.Errorf("want silence and no session, got %v", shows(out))
	}
	s.answer("stranger", Message{Type: MsgGrant, Lock: "L"})
	n := s.fill("a", Message{Type: MsgRequest})
	n.To = "somebody else"
	s.n.Step(s.now, n)
	if out := s.take(); len(out) > 0 {
		t.Errorf("want what is for others ignored, got %v", shows(out))
	}
}

func TestConfigIsValidated(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no name":     func(c *Config) { c.Name = "" },
		"no members":  func(c *Config) { c.Members = nil },
		"128 members": func(c *Config) { c.Members = letters(128) },
		"twice":       func(c *Config) { c.Members = []string{"a", "b", "a"} },
		"T":           func(c *Config) { c.LeaseTTL = 0 },
		"long T":      func(c *Config) { c.LeaseTTL = 1001 * Second },
		"d":           func(c *Config) { c.Drift = 200_001 },
		"negative d":  func(c *Config) { c.Drift = -1 },
		"incarnation": func(c *Config) { c.Incarnation = Incarnation{} },
		"standalone":  func(c *Config) { c.Standalone = true },
	} {
		cfg := testConfig("a", letters(3))
		change(&cfg)
		if _, err := New(cfg, 1, 1); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}
