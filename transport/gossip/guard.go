package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The types of memberlist's messages that this package has to tell apart. They
// are part of its wire format and never change there.
const (
	msgPing         = 0
	msgIndirectPing = 1
	msgAck          = 2
	msgSuspect      = 3
	msgAlive        = 4
	msgDead         = 5
	msgPushPull     = 6
	msgCompound     = 7
	msgNack         = 11
	msgCRC          = 12
	msgError        = 13
	msgLabel        = 244
)

var (
	errTruncated = errors.New("gossip: message is truncated")
	errRefused   = errors.New("gossip: message of a kind that the cluster does not use")
	errLabel     = errors.New("gossip: label of another cluster")
	errTooBig    = errors.New("gossip: message is larger than a cluster of ours can need")
)

// splitLabel takes the label off a packet.
func splitLabel(b []byte) (label string, rest []byte, err error) {
	if len(b) == 0 || b[0] != msgLabel {
		return "", b, nil
	}
	if len(b) < 2 || len(b) < 2+int(b[1]) {
		return "", nil, errTruncated
	}
	n := 2 + int(b[1])
	return string(b[2:n]), b[n:], nil
}

// skipCRC takes the checksum off that memberlist puts in front of a packet; it
// compares it itself.
func skipCRC(b []byte) []byte {
	const size = 5 // the type and 32 bits
	if len(b) > size && b[0] == msgCRC {
		return b[size:]
	}
	return b
}

// checkPacket refuses packets that memberlist would spend much on, or that no
// member sends: user messages, compressed ones (a packet can unfold to megabytes),
// compounds within compounds.
func checkPacket(b []byte, label string) error {
	got, b, err := splitLabel(b)
	if err != nil {
		return err
	}
	if got != label {
		return fmt.Errorf("%w: %.80q", errLabel, got)
	}
	b = skipCRC(b)
	if len(b) == 0 {
		return errTruncated
	}
	if b[0] != msgCompound {
		return checkPacketType(b[0])
	}
	parts, err := compoundParts(b[1:])
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := checkPacketType(part[0]); err != nil {
			return err
		}
	}
	return nil
}

func checkPacketType(t byte) error {
	switch t {
	case msgPing, msgIndirectPing, msgAck, msgSuspect, msgAlive, msgDead, msgNack:
		return nil
	}
	return fmt.Errorf("%w: packet type %d", errRefused, t)
}

// compoundParts splits a compound message behind its type byte: a count, a
// 16-bit length for each part, the parts.
func compoundParts(b []byte) ([][]byte, error) {
	if len(b) == 0 || len(b) < 1+2*int(b[0]) {
		return nil, errTruncated
	}
	n := int(b[0])
	lengths, rest := b[1:1+2*n], b[1+2*n:]
	parts := make([][]byte, 0, n)
	for ; len(lengths) > 0; lengths = lengths[2:] {
		size := int(binary.BigEndian.Uint16(lengths))
		if size == 0 || size > len(rest) {
			return nil, errTruncated
		}
		parts = append(parts, rest[:size])
		rest = rest[size:]
	}
	return parts, nil
}

// messageNumber returns the type of a packet and, if it is a ping, an indirect
// ping or an acknowledgement, its sequence number. Of a compound only the first
// part counts: memberlist puts these there and news behind them.
func messageNumber(b []byte) (kind byte, number uint32, ok bool) {
	_, b, err := splitLabel(b)
	if err != nil {
		return 0, 0, false
	}
	b = skipCRC(b)
	if len(b) > 0 && b[0] == msgCompound {
		parts, err := compoundParts(b[1:])
		if err != nil || len(parts) == 0 {
			return 0, 0, false
		}
		b = parts[0]
	}
	if len(b) == 0 || b[0] > msgAck {
		return 0, 0, false
	}
	n, err := findInt(b[1:], "SeqNo")
	if err != nil || n > 1<<32-1 {
		return 0, 0, false
	}
	return b[0], uint32(n), true
}

// ackPacket builds the packet by which a member would answer a ping.
func ackPacket(label string, number uint32) []byte {
	var b []byte
	if label != "" {
		b = append(b, msgLabel, byte(len(label)))
		b = append(b, label...)
	}
	b = append(b, msgAck, 0x82, 0xa5)
	b = append(b, "SeqNo"...)
	b = append(b, 0xce)
	b = binary.BigEndian.AppendUint32(b, number)
	b = append(b, 0xa7)
	b = append(b, "Payload"...)
	return append(b, 0xc0)
}
