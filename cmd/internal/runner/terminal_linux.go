package runner

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal of this process. A nil terminal does
// nothing.
type terminal struct {
	fd    int
	group int // of this process
}

// controllingTerminal returns the terminal on f, or nil when f is none that
// controls this process.
func controllingTerminal(f *os.File) *terminal {
	fd := int(f.Fd())
	if _, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil {
		return nil
	}
	return &terminal{fd: fd, group: unix.Getpgrp()}
}

// isOurs reports whether this process is in the foreground.
func (t *terminal) isOurs() bool {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && group == t.group
}

// give puts group into the foreground, if this process is there: a command that
// was started in the background must not take the terminal from the shell.
func (t *terminal) give(group int) {
	if t != nil && t.isOurs() {
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
	}
}

// take brings this process back into the foreground, if the command's group is
// there.
func (t *terminal) take(group int) {
	if t == nil {
		return
	}
	if now, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err != nil || now != group {
		return
	}
	// Who does this from the background is stopped by SIGTTOU, unless it ignores
	// it. Nothing is started after this that would inherit that.
	signal.Ignore(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group)
}

// shellWatches reports whether somebody can continue this process's group after
// it was stopped: some member has a parent in the same session, outside of the
// group. The kernel asks the same before it lets the terminal stop a group.
func shellWatches() bool {
	self, err := readStat(os.Getpid())
	if err != nil {
		return false
	}
	processes := make(map[int]procStat)
	scanProcesses(func(s procStat) { processes[s.pid] = s })
	for _, s := range processes {
		parent, ok := processes[s.ppid]
		if s.pgrp == self.pgrp && s.running() && ok && parent.session == self.session && parent.pgrp != self.pgrp {
			return true
		}
	}
	return false
}
