package runner

import (
	"encoding/binary"
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// recordKind says what a record between this program and its guard means.
type recordKind uint64

// The records to the guard.
const (
	sayDeadline  recordKind = iota + 1 // value: the deadline
	sayOpen                            // let the command begin
	sayEnd                             // value: the deadline by which the command is to be over
	saySuspended                       // this program is about to be stopped, like its command
	sayResumed                         // and goes on
	sayGoodbye                         // all is over; whatever still runs may go on
)

// The records of the guard.
const (
	tellStarted recordKind = iota + 101 // value: the command's pid; more: its start time
	tellFailed                          // value: the errno with which the start failed
	tellStopped                         // the command was stopped
	tellEnding                          // the guard ends the command
	tellExited                          // value: the command's exit status; more: 1 when a signal ended it
)

// record is one message. All have one size, far below that up to which the kernel
// writes to a pipe in one piece: none is ever cut in two.
type record struct {
	kind        recordKind
	value, more uint64
}

const recordSize = 3 * 8

func (r record) bytes() []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, recordSize), uint64(r.kind))
	b = binary.LittleEndian.AppendUint64(b, r.value)
	return binary.LittleEndian.AppendUint64(b, r.more)
}

func parseRecord(b []byte) record {
	return record{
		kind:  recordKind(binary.LittleEndian.Uint64(b)),
		value: binary.LittleEndian.Uint64(b[8:]),
		more:  binary.LittleEndian.Uint64(b[16:]),
	}
}

// sendRecord writes to a pipe that does not block. An error says that the reader
// is gone, or has not read for very long.
func sendRecord(fd int, r record) error {
	for {
		_, err := unix.Write(fd, r.bytes())
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receiveRecord reads from a pipe that does not block: unix.EAGAIN says that
// there is nothing, io.EOF that the writer is gone.
func receiveRecord(fd int) (record, error) {
	var b [recordSize]byte
	for {
		n, err := unix.Read(fd, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return record{}, err
		case n != len(b):
			return record{}, io.EOF
		default:
			return parseRecord(b[:]), nil
		}
	}
}
