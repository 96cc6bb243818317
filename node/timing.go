package node

// timing holds every span of time that the rules use, all derived from T (the
// lease TTL) and d (the drift bound). The fractions stand here and nowhere else.
//
// Spans that a requester relies on are rounded down and those a member waits for
// are rounded up, so that rounding never makes a requester trust what a member
// has ended: for any two clocks within d, fresh is over before session, and vote
// is over before voteSilence.
type timing struct {
	ttl          Duration
	fresh        Duration // requester: a grant counts for so long after its echo
	session      Duration // member: a session ends after so much silence
	vote         Duration // requester: a vote counts for so long after its echo
	voteSilence  Duration // member: no other vote for so long after an answer
	silence      Duration // requester: says nothing for so long after T without an answer
	quarantine   Duration // restarted member: grants nothing for so long
	repeat       Duration // unanswered messages, Validate and Inquire
	holderRepeat Duration // a holder's unanswered messages
	keepIdle     Duration // between KeepAlives
	keepBusy     Duration // the same while waiting or holding
	keepMajority Duration // the same while holding and asking for votes for the majority, which last T/3 only
	need         Duration // one that does not hold asks for them so long after it last lacked a tree quorum
	answer       Duration // longest time for an answer, unless the round trip is longer
	withdraw     Duration // below a majority for so long: take requests back
	handOver     Duration // local hand-overs once others wait
	spread       Duration // a holder asks all members after so long
	settle       Duration // a long hold is told at the latest so long after it began
	settled      Duration // or once its deadline is so far away
	margin       Duration // a holder whose votes last for less asks all members
	tell         Duration // a deadline that moved on by so much is told; the driver asks as often itself
	forget       Duration // half the time that an ended id is remembered at least
}

const million = 1_000_000

// newTiming derives the spans; drift is in parts per million.
func newTiming(ttl Duration, drift int64) timing {
	t, d := int64(ttl), drift
	longer := Duration(ceilDiv(t*(million+d), million)) // T x (1+d)
	return timing{
		ttl:          ttl,
		fresh:        Duration(t * (million - d) / million),
		session:      longer,
		vote:         Duration(t * (million - d) / (3 * million)),
		voteSilence:  Duration(ceilDiv(t*(million+d), 3*million)),
		silence:      Duration(ceilDiv(int64(longer)*(million+d), million-d) + ceilDiv(t, 8)),
		quarantine:   longer,
		repeat:       ttl / 4,
		holderRepeat: ttl / 8,
		keepIdle:     ttl / 4,
		keepBusy:     ttl / 8,
		keepMajority: ttl / 24,
		need:         2 * ttl,
		answer:       ttl / 24,
		withdraw:     ttl / 2,
		handOver:     ttl / 4,
		spread:       ttl / 3,
		settle:       ttl / 8,
		settled:      ttl / 2,
		margin:       ttl / 6, // votes last T/3, KeepAlives come each T/8: less is left only when one is late
		tell:         ttl / 16,
		forget:       2 * longer,
	}
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
