package dmutex

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/treequorum/dmutex/node"
)

// logQueue is how many lines wait for a slow log. Beyond, lines are lost and
// counted: a log that nobody reads must not stop the lock.
const logQueue = 256

// quiet is how often one kind of line about one peer is logged at the most.
const quiet = 10 * time.Second

// logger writes log lines on a goroutine of its own. Only the loop calls event;
// line may be called by any goroutine.
type logger struct {
	to    logrus.FieldLogger // nil: silent
	lines chan logLine
	done  chan struct{}

	addrs    map[string]string // of the peers, for the lines about them
	starting atomic.Bool       // until T after the start, in which peers start too

	mu   sync.Mutex
	last map[string]time.Time // when a kind of line about a peer was logged
	lost int
}

type logLine struct {
	level  logrus.Level
	text   string
	fields logrus.Fields
}

// maxQuiet bounds the kinds and peers that are told apart. Strangers can bring
// any number of names.
const maxQuiet = 1024

func newLogger(to logrus.FieldLogger, name string, peers []Peer) *logger {
	l := &logger{
		lines: make(chan logLine, logQueue), done: make(chan struct{}), last: make(map[string]time.Time),
		addrs: make(map[string]string, len(peers)),
	}
	for _, p := range peers {
		l.addrs[p.Name] = p.Addr
	}
	l.starting.Store(true)
	if to == nil {
		close(l.done)
		return l
	}
	l.to = to.WithField("node", name)
	go l.write()
	return l
}

func (l *logger) write() {
	defer close(l.done)
	for line := range l.lines {
		to := l.to.WithFields(line.fields)
		switch line.level {
		case logrus.DebugLevel, logrus.TraceLevel:
			to.Debug(line.text)
		case logrus.InfoLevel:
			to.Info(line.text)
		case logrus.WarnLevel:
			to.Warn(line.text)
		case logrus.ErrorLevel, logrus.FatalLevel, logrus.PanicLevel:
			to.Error(line.text)
		}
	}
}

// close ends the goroutine once what waits is written; call it when nobody logs
// any more. A log that blocks for ever is left to itself after a second.
func (l *logger) close() {
	close(l.lines)
	select {
	case <-l.done:
	case <-time.After(time.Second):
	}
}

// line logs without blocking. With a key, lines of that key come at most each 10
// seconds.
func (l *logger) line(level logrus.Level, key, text string, fields logrus.Fields) {
	if l.to == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if key != "" {
		now := time.Now()
		if at, ok := l.last[key]; ok && now.Sub(at) < quiet {
			return
		}
		if len(l.last) >= maxQuiet {
			clear(l.last)
		}
		l.last[key] = now
	}
	if l.lost > 0 {
		fields["lines_lost"] = l.lost
	}
	select {
	case l.lines <- logLine{level, text, fields}:
		l.lost = 0
	default:
		l.lost++
	}
}

// event logs what is worth a line. Locks and unlocks are not: that is what
// counters are for.
func (l *logger) event(e *node.Event) {
	if l.to == nil {
		return
	}
	peer := logrus.Fields{"peer": e.Peer}
	switch e.Type {
	case node.EventPeerDown:
		if !l.starting.Load() {
			l.down(e.Peer)
		}
	case node.EventPeerStarting:
		l.line(logrus.DebugLevel, "starting "+e.Peer, "member was started lately and may not grant yet", peer)
	case node.EventPeerUp:
		if !l.starting.Load() {
			l.line(logrus.InfoLevel, "up "+e.Peer, "member answers", peer)
		}
	case node.EventPeerDiffers:
		l.line(logrus.WarnLevel, "differs "+e.Peer, "node has a different configuration and is refused: compare peers, "+
			"cluster name, lease TTL, clock drift, rotation and tree-only on both", peer)
	case node.EventLost:
		l.line(logrus.WarnLevel, "", "lock was lost", logrus.Fields{"lock": e.Lock, "reason": string(lossReason(e.Loss))})
	case node.EventReplaced:
		l.line(logrus.ErrorLevel, "", "another process runs under this node name: stopping", logrus.Fields{})
	case node.EventRestarted:
		l.line(logrus.WarnLevel, "", "an earlier process of this node had a later start time: "+
			"its clock or this one is wrong; went on with a higher incarnation", logrus.Fields{})
	case node.EventDropped:
		l.line(logrus.WarnLevel, "dropped "+e.Peer, "dropped a message: "+e.Text, peer)
	case node.EventFailed, node.EventAcquired, node.EventDeadline, node.EventToken, node.EventWaiting:
	}
}

// started ends the time in which peers that do not answer are no news, and names
// those that still do not.
func (l *logger) started(missing []string) {
	l.starting.Store(false)
	for _, peer := range missing {
		l.down(peer)
	}
}

func (l *logger) down(peer string) {
	l.line(logrus.WarnLevel, "down "+peer, "member does not answer: is it running, and is this its address?",
		logrus.Fields{"peer": peer, "addr": l.addrs[peer]})
}
