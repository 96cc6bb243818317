package transport

import (
	"encoding/binary"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Limits of the wire. They are part of the protocol, not settings.
const (
	MaxFrame    = 64 << 10 // bytes of a frame's payload
	MaxNodeName = 128      // bytes of a node or cluster name
	MaxLockName = 255      // bytes of a lock name
	MaxLabel    = 128      // bytes of a label
	maxDepth    = 16       // nesting of arrays that the checker follows
)

// checkPayload walks a frame before msgpack sees it and refuses what the library
// would take badly: its slice, string and skip paths allocate by the length on
// the wire or recurse without bound, and no setting of it prevents that. What
// passes is exactly one value made of arrays, strings, booleans and unsigned
// integers, whose lengths all lie within the payload. It allocates nothing unless
// it returns an error.
func checkPayload(p []byte) error {
	if len(p) == 0 || len(p) > MaxFrame {
		return fmt.Errorf("%w: %d bytes, allowed are 1 to %d", ErrInvalidFrame, len(p), MaxFrame)
	}
	var open [maxDepth]int // values still missing in each open array
	depth, off := 0, 0
	for {
		head, items, err := checkValue(p[off:])
		if err != nil {
			return fmt.Errorf("%w at byte %d", err, off)
		}
		off += head
		if items > 0 {
			if depth == maxDepth {
				return fmt.Errorf("%w: nested deeper than %d", ErrInvalidFrame, maxDepth)
			}
			open[depth] = items
			depth++
			continue
		}
		for depth > 0 {
			open[depth-1]--
			if open[depth-1] > 0 {
				break
			}
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if off != len(p) {
		return fmt.Errorf("%w: %d bytes behind the value", ErrInvalidFrame, len(p)-off)
	}
	return nil
}

// checkValue looks at the value at the start of p: how many bytes it takes (of an
// array only the header) and how many values follow inside.
func checkValue(p []byte) (size, items int, err error) {
	if len(p) == 0 {
		return 0, 0, fmt.Errorf("%w: cut short", ErrInvalidFrame)
	}
	c := p[0]
	switch {
	case c <= msgpcode.PosFixedNumHigh:
		return 1, 0, nil
	case msgpcode.IsFixedString(c):
		return sized(p, 1, int(c&msgpcode.FixedStrMask))
	case msgpcode.IsFixedArray(c):
		return nested(p, 1, int(c&msgpcode.FixedArrayMask))
	}
	switch c {
	case msgpcode.True, msgpcode.False:
		return 1, 0, nil
	case msgpcode.Uint8:
		return sized(p, 1, 1)
	case msgpcode.Uint16:
		return sized(p, 1, 2)
	case msgpcode.Uint32:
		return sized(p, 1, 4)
	case msgpcode.Uint64:
		return sized(p, 1, 8)
	case msgpcode.Str8, msgpcode.Str16, msgpcode.Str32:
		head, n, err := lengthAt(p, c-msgpcode.Str8)
		if err != nil {
			return 0, 0, err
		}
		return sized(p, head, n)
	case msgpcode.Array16, msgpcode.Array32:
		head, n, err := lengthAt(p, c-msgpcode.Array16+1)
		if err != nil {
			return 0, 0, err
		}
		return nested(p, head, n)
	}
	// No maps (doubled keys), no nil (taken for zero), no negative numbers (cut to
	// positive ones), no floats, bytes or extensions: no field has them.
	return 0, 0, fmt.Errorf("%w: code 0x%02x is not used", ErrInvalidFrame, c)
}

// lengthAt reads a length of 1, 2 or 4 bytes (class 0, 1, 2) behind the code.
func lengthAt(p []byte, class byte) (head, n int, err error) {
	head = 1 + 1<<class
	if len(p) < head {
		return 0, 0, fmt.Errorf("%w: cut short", ErrInvalidFrame)
	}
	var v uint64
	switch class {
	case 0:
		v = uint64(p[1])
	case 1:
		v = uint64(binary.BigEndian.Uint16(p[1:]))
	default:
		v = uint64(binary.BigEndian.Uint32(p[1:]))
	}
	if v > MaxFrame { // also keeps int safe where it has 32 bits
		return 0, 0, fmt.Errorf("%w: claims %d items", ErrInvalidFrame, v)
	}
	return head, int(v), nil
}

// sized is a value of n bytes behind a head.
func sized(p []byte, head, n int) (size, items int, err error) {
	if n > len(p)-head {
		return 0, 0, fmt.Errorf("%w: claims %d bytes of %d", ErrInvalidFrame, n, len(p)-head)
	}
	return head + n, 0, nil
}

// nested is an array of n values behind a head; each takes at least one byte.
func nested(p []byte, head, n int) (size, items int, err error) {
	if n > len(p)-head {
		return 0, 0, fmt.Errorf("%w: claims %d values in %d bytes", ErrInvalidFrame, n, len(p)-head)
	}
	return head, n, nil
}

// text is a string or the bytes of one.
type text interface{ ~string | ~[]byte }

// checkText says what is wrong with a name or label, or returns "". The rules
// hold for both directions, so that a node does not send what others refuse.
func checkText[T text](s T, minLen, maxLen int) string {
	if len(s) < minLen || len(s) > maxLen {
		return fmt.Sprintf("has %d bytes, allowed are %d to %d", len(s), minLen, maxLen)
	}
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			if s[i] < 0x20 || s[i] == 0x7f {
				return fmt.Sprintf("has the control character 0x%02x", s[i])
			}
			i++
			continue
		}
		r, size := decodeRune(s[i:])
		if r == utf8.RuneError && size <= 1 {
			return "is not valid UTF-8"
		}
		if unicode.IsControl(r) {
			return fmt.Sprintf("has the control character %U", r)
		}
		i += size
	}
	return ""
}

// decodeRune reads the first character of a text that is not ASCII.
func decodeRune[T text](s T) (rune, int) {
	var b [utf8.UTFMax]byte
	return utf8.DecodeRune(b[:copy(b[:], s)])
}
