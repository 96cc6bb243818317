package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// gateArgs are the arguments behind GateArgument: the descriptor to wait on, the
// process that must still be the parent, the program's path, then its argv.
func gateArgs(fd, parent int, path string, argv []string) []string {
	return append([]string{GateArgument, itoa(int64(fd)), itoa(int64(parent)), path}, argv...)
}

// Gate waits until the caller writes a byte to the pipe named by args, then
// becomes the command. It returns an exit status only when that fails: the
// caller is gone, or the command cannot be executed.
func Gate(args []string, stderr io.Writer) int {
	const usage = 64
	if len(args) < 4 {
		_, _ = fmt.Fprintln(stderr, "dmutex: this is an internal command; use dmutex lock")
		return usage
	}
	fd, errFd := strconv.Atoi(args[0])
	parent, errParent := strconv.Atoi(args[1])
	if err := errors.Join(errFd, errParent); err != nil {
		_, _ = fmt.Fprintf(stderr, "dmutex: %v; this is an internal command; use dmutex lock\n", err)
		return usage
	}
	// The kernel keeps the death signal for each thread: the one that asks for
	// it must be the one that calls exec.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		_, _ = fmt.Fprintf(stderr, "dmutex: cannot tie the command to this process: %v\n", err)
		return statusCannotExecute
	}
	if os.Getppid() != parent || !waitForByte(fd) {
		return statusSignal + int(unix.SIGKILL) // the caller died: nobody reads this
	}
	return execute(args[2], args[3:], stderr)
}

// waitForByte blocks until the pipe has a byte or its writer is gone, and
// closes it: the command must not inherit it.
func waitForByte(fd int) bool {
	defer func() { _ = unix.Close(fd) }()
	var b [1]byte
	for {
		n, err := unix.Read(fd, b[:])
		if !errors.Is(err, unix.EINTR) {
			return n == 1 && err == nil
		}
	}
}

// execute replaces this process. It returns only when that fails.
func execute(path string, argv []string, stderr io.Writer) int {
	err := syscall.Exec(path, argv, os.Environ())
	if errors.Is(err, unix.ENOEXEC) { // a script without "#!", which shells run themselves
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, argv[1:]...), os.Environ())
	}
	_, _ = fmt.Fprintf(stderr, "dmutex: %s: %v\n", path, err)
	if errors.Is(err, unix.ENOENT) {
		return statusNotFound
	}
	return statusCannotExecute
}
