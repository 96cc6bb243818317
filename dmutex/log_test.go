package dmutex

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
)

// lockedBuffer is a log that several goroutines may read and write.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Members that start within T of each other are no news; one that has not answered
// by then is named with its address, once.
func TestLogNamesMembersThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		var out lockedBuffer
		log := logrus.New()
		log.SetOutput(&out)
		w.start("n01", func(c *Config) { c.Logger = log })
		time.Sleep(time.Second)
		w.start("n02", nil)
		time.Sleep(1500 * time.Millisecond)
		if out.String() != "" {
			t.Errorf("logged within T of the start: %s", out.String())
		}
		time.Sleep(10 * time.Second)
		if got := out.String(); strings.Count(got, "does not answer") != 1 || !strings.Contains(got, "n03:1") || strings.Contains(got, "n02") {
			t.Errorf("log %q, want one line about n03 at n03:1", got)
		}
		out.mu.Lock()
		out.buf.Reset()
		out.mu.Unlock()
		w.start("n03", nil)
		time.Sleep(10 * time.Second)
		if got := out.String(); strings.Count(got, "member answers") != 1 {
			t.Errorf("log %q, want one line that n03 answers", got)
		}
	})
}
