package gossip

import (
	"encoding/binary"
	"math"
)

// maxFields bounds the msgpack maps that are looked into; memberlist's largest
// has eight fields.
const maxFields = 16

// scanner walks over the few kinds of msgpack values that the heads of
// memberlist's messages are made of. Anything else is an error.
type scanner struct {
	next func(n int) ([]byte, error) // the next n bytes, at most maxName
}

func (s scanner) number(n int) (uint64, error) {
	b, err := s.next(n)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[8-n:], b)
	return binary.BigEndian.Uint64(wide[:]), nil
}

// mapHead reads the number of fields of a map.
func (s scanner) mapHead() (int, error) {
	kind, err := s.number(1)
	if err != nil {
		return 0, err
	}
	n := kind & 0x0f
	switch {
	case kind&0xf0 == 0x80:
	case kind == 0xde:
		if n, err = s.number(2); err != nil {
			return 0, err
		}
	default:
		return 0, errRefused
	}
	if n > maxFields {
		return 0, errTooBig
	}
	return int(n), nil
}

// value reads one value. The integer is -1 for anything that is no integer from
// 0 to MaxInt64, the text empty for all but strings and binary.
func (s scanner) value() (integer int64, text string, err error) {
	kind, err := s.number(1)
	if err != nil {
		return -1, "", err
	}
	switch {
	case kind <= 0x7f:
		return int64(kind), "", nil
	case kind >= 0xa0 && kind <= 0xbf:
		return s.text(kind & 0x1f)
	case kind == 0xc0, kind == 0xc2, kind == 0xc3, kind >= 0xe0: // nil, false, true, negative
		return -1, "", nil
	}
	switch kind {
	case 0xc4, 0xd9, 0xc5, 0xda: // binary and string with a length of 8 or 16 bits
		size := 1
		if kind == 0xc5 || kind == 0xda {
			size = 2
		}
		n, err := s.number(size)
		if err != nil {
			return -1, "", err
		}
		return s.text(n)
	case 0xcc, 0xcd, 0xce, 0xcf: // unsigned, 8 to 64 bits
		return s.integer(1<<(kind-0xcc), math.MaxInt64)
	case 0xd0, 0xd1, 0xd2, 0xd3: // signed, 8 to 64 bits
		size := 1 << (kind - 0xd0)
		return s.integer(size, 1<<(8*size-1)-1)
	}
	return -1, "", errRefused
}

func (s scanner) integer(size int, highest uint64) (int64, string, error) {
	n, err := s.number(size)
	if err != nil || n > highest {
		return -1, "", err
	}
	return int64(n), "", nil
}

func (s scanner) text(n uint64) (int64, string, error) {
	if n > maxName {
		return -1, "", errTooBig
	}
	b, err := s.next(int(n))
	return -1, string(b), err
}

// fields walks over a map and calls f for each field that is an integer, or -1.
func (s scanner) fields(f func(key string, value int64) error) error {
	n, err := s.mapHead()
	if err != nil {
		return err
	}
	for range n {
		_, key, err := s.value()
		if err != nil {
			return err
		}
		value, _, err := s.value()
		if err != nil {
			return err
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

// findInt returns an integer field of the map that b begins with.
func findInt(b []byte, key string) (int64, error) {
	found := int64(-1)
	s := scanner{next: func(n int) ([]byte, error) {
		if n > len(b) {
			return nil, errTruncated
		}
		head := b[:n]
		b = b[n:]
		return head, nil
	}}
	err := s.fields(func(k string, v int64) error {
		if k == key {
			found = v
		}
		return nil
	})
	if err == nil && found < 0 {
		err = errTruncated
	}
	return found, err
}
