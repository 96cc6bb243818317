package runner

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfPath starts this very program again, also when its file was replaced or
// removed meanwhile.
const selfPath = "/proc/self/exe"

// spawn starts this program again with args in a process group of its own, and
// lets it inherit fds under their own numbers: fixed ones might be in use by what
// the command inherits from our caller. The descriptors have close-on-exec again
// when it returns.
func spawn(args, env []string, streams [3]uintptr, fds []int, attr syscall.SysProcAttr) (int, error) {
	for _, fd := range fds {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return 0, err
		}
		defer unix.CloseOnExec(fd)
	}
	attr.Setpgid = true
	return syscall.ForkExec(selfPath, append([]string{os.Args[0]}, args...), &syscall.ProcAttr{
		Env: env, Files: streams[:], Sys: &attr,
	})
}

// pipes makes two pipes and returns their ends; none is inherited as it is.
func pipes() (first, second [2]int, err error) {
	if err = unix.Pipe2(first[:], unix.O_CLOEXEC); err != nil {
		return first, second, err
	}
	if err = unix.Pipe2(second[:], unix.O_CLOEXEC); err != nil {
		closeAll(first[:]...)
	}
	return first, second, err
}

func closeAll(fds ...int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
