package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// errLineTooLong says that a line is over its limit.
var errLineTooLong = errors.New("line is too long")

// lineReader reads lines of JSON of a bounded length.
type lineReader struct {
	r     *bufio.Reader
	limit int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, limit), limit: limit}
}

// next decodes the next line into v, and takes nothing that v has no place for.
// It returns io.EOF at the end. A *json error, or errLineTooLong, is the
// sender's fault; any other error is the connection's.
func (l *lineReader) next(v any) error {
	for {
		line, err := l.r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%w: at most %d bytes are allowed", errLineTooLong, l.limit)
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return decodeStrict(line, v)
		}
		if err != nil {
			return err
		}
	}
}

// malformedError is a line that is no JSON, or not the right one.
type malformedError struct{ err error }

func (e *malformedError) Error() string { return "malformed line: " + e.err.Error() }

func (e *malformedError) Unwrap() error { return e.err }

func decodeStrict(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return &malformedError{err}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &malformedError{errors.New("a line must hold one JSON object and nothing behind it")}
	}
	return nil
}

// lineWriter writes states, each flushed. After a failed write it drops all
// others: the reader of the connection notices that it is broken.
type lineWriter struct {
	w       io.Writer
	control *http.ResponseController
	broken  bool
}

// write is bounded by a write deadline: a caller that does not read must not
// hold up its own hold for long.
func (l *lineWriter) write(s State) {
	const patience = 5 * time.Second
	if l.broken {
		return
	}
	line, err := json.Marshal(s)
	if err == nil {
		err = l.control.SetWriteDeadline(time.Now().Add(patience))
	}
	if err == nil {
		_, err = l.w.Write(append(line, '\n'))
	}
	if err == nil {
		err = l.control.Flush()
	}
	l.broken = err != nil
}
