package transport

import (
	"math"

	"github.com/treequorum/dmutex/node"
)

// How many values stand in front of a type's own fields: type, two names, two
// incarnations of two parts, fingerprint, timestamp; then send time, or echo,
// session and vote.
const (
	headerToMember   = 10
	headerFromMember = 12
	partsOfID        = 3
)

// header passes what every message carries.
func (c *coder) header(m *node.Message) {
	c.text("from", &m.From, 1, MaxNodeName)
	c.text("to", &m.To, 1, MaxNodeName)
	c.incarnation("sender's incarnation", &m.FromIncarnation)
	c.incarnation("receiver's incarnation", &m.ToIncarnation)
	num(c, "fingerprint", &m.Fingerprint, 0, math.MaxUint64)
	c.timestamp("timestamp", &m.Timestamp)
	if !m.Type.FromMember() {
		num(c, "send time", &m.Sent, 0, math.MaxInt64)
		return
	}
	num(c, "echo", &m.Echo, 0, math.MaxInt64)
	num(c, "session", &m.Session, 0, math.MaxUint64)
	num(c, "vote", &m.Vote, 0, uint64(node.VoteMajority))
}

// messageFields is the number of values in a message of a type.
func messageFields(t node.MessageType) int {
	const lockAndID = 1 + partsOfID
	switch t {
	case node.MsgRequest:
		return headerToMember + lockAndID + 3
	case node.MsgYield:
		return headerToMember + lockAndID + 1
	case node.MsgRelease:
		return headerToMember + lockAndID
	case node.MsgValidateReply:
		return headerToMember + lockAndID + 2
	case node.MsgCommit:
		return headerToMember + lockAndID + 1
	case node.MsgKeepAlive, node.MsgReadFloors:
		return headerToMember + 1
	case node.MsgGoodbye:
		return headerToMember
	case node.MsgGrant:
		return headerFromMember + lockAndID + 2
	case node.MsgQueued:
		return headerFromMember + lockAndID + 4
	case node.MsgInquire, node.MsgValidate:
		return headerFromMember + lockAndID + 1
	case node.MsgKeepAliveAck:
		return headerFromMember + 2
	case node.MsgCommitted:
		return headerFromMember + lockAndID + 3
	case node.MsgFloors:
		return headerFromMember + 3
	case node.MsgNotReady:
		return headerFromMember + lockAndID + 3
	}
	return 0
}

// body passes the fields of the message's own type.
func (c *coder) body(m *node.Message) {
	if m.Type.FromMember() {
		c.answer(m)
		return
	}
	c.question(m)
}

// question passes the fields of what a requester says to a member.
func (c *coder) question(m *node.Message) {
	switch m.Type { // the others are in answer
	case node.MsgRequest:
		c.lockAndID(m)
		c.timestamp("request time", &m.RequestTime)
		c.flag("holding", &m.Holding)
		c.text("label", &m.Label, 0, MaxLabel)
	case node.MsgYield:
		c.lockAndID(m)
		c.number(m)
	case node.MsgRelease:
		c.lockAndID(m)
	case node.MsgValidateReply:
		c.lockAndID(m)
		c.number(m)
		num(c, "state", &m.State, uint64(node.StateOver), uint64(node.StateHolding))
	case node.MsgCommit:
		c.lockAndID(m)
		num(c, "token", &m.Token, 0, math.MaxUint64)
	case node.MsgKeepAlive:
		c.flag("need majority", &m.NeedMajority)
	case node.MsgReadFloors:
		num(c, "round", &m.Round, 0, math.MaxUint64)
	default: // Goodbye has none
	}
}

// answer passes the fields of what a member says to a requester.
func (c *coder) answer(m *node.Message) {
	switch m.Type { // the others are in question
	case node.MsgGrant:
		c.lockAndID(m)
		c.number(m)
		num(c, "floor", &m.Floor, 0, math.MaxUint64)
	case node.MsgQueued:
		c.lockAndID(m)
		num(c, "ahead", &m.Ahead, 0, math.MaxUint32)
		c.text("owner", &m.Owner, 0, MaxNodeName)
		c.flag("owner holds", &m.OwnerHolds)
		num(c, "since", &m.Since, 0, math.MaxInt64)
	case node.MsgInquire, node.MsgValidate:
		c.lockAndID(m)
		c.number(m)
	case node.MsgKeepAliveAck:
		c.incarnation("other incarnation", &m.Other)
	case node.MsgCommitted:
		c.lockAndID(m)
		num(c, "token", &m.Token, 0, math.MaxUint64)
		c.flag("ok", &m.OK)
		num(c, "floor", &m.Floor, 0, math.MaxUint64)
	case node.MsgFloors:
		num(c, "round", &m.Round, 0, math.MaxUint64)
		c.flag("known", &m.OK)
		num(c, "highest floor", &m.Floor, 0, math.MaxUint64)
	case node.MsgNotReady:
		// It may answer a KeepAlive, which has neither lock nor id.
		c.text("lock", &m.Lock, 0, MaxLockName)
		c.id(&m.ID)
		num(c, "reason", &m.Reason, uint64(node.ReasonQuarantined), uint64(node.ReasonTooManySessions))
		c.incarnation("other incarnation", &m.Other)
	default: // FromMember lists no others
	}
}

func (c *coder) lockAndID(m *node.Message) {
	c.text("lock", &m.Lock, 1, MaxLockName)
	c.id(&m.ID)
}

func (c *coder) id(id *node.RequestID) {
	c.incarnation("id", &id.Incarnation)
	num(c, "id counter", &id.Counter, 0, math.MaxUint64)
}

func (c *coder) number(m *node.Message) {
	num(c, "grant number", &m.Number, 0, math.MaxUint64)
}

func (c *coder) incarnation(field string, i *node.Incarnation) {
	num(c, field, &i.Start, 0, math.MaxInt64)
	num(c, field, &i.Random, 0, math.MaxUint64)
}

func (c *coder) timestamp(field string, t *node.Timestamp) {
	num(c, field, t, 0, uint64(node.MaxTimestamp))
}
