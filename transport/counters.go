package transport

import "sync/atomic"

// counters are the live form of Stats; the names are the same.
type counters struct {
	framesIn, framesOut, bytesIn, bytesOut, writes               atomic.Uint64
	droppedFull, droppedStale, droppedNoRoute, droppedBroken     atomic.Uint64
	encodeErrors, decodeErrors, dials, dialsRefused, dialsFailed atomic.Uint64
	mismatches, handshakesFailed, misaddressed, replaced         atomic.Uint64
	inbound, outbound                                            atomic.Int64
}

// stats reads all counters, one after the other.
func (c *counters) stats() Stats {
	return Stats{
		FramesIn: c.framesIn.Load(), FramesOut: c.framesOut.Load(),
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(), Writes: c.writes.Load(),
		DroppedFull: c.droppedFull.Load(), DroppedStale: c.droppedStale.Load(),
		DroppedNoRoute: c.droppedNoRoute.Load(), DroppedBroken: c.droppedBroken.Load(),
		EncodeErrors: c.encodeErrors.Load(), DecodeErrors: c.decodeErrors.Load(),
		Dials: c.dials.Load(), DialsRefused: c.dialsRefused.Load(), DialsFailed: c.dialsFailed.Load(),
		Mismatches: c.mismatches.Load(), HandshakesFailed: c.handshakesFailed.Load(),
		Misaddressed: c.misaddressed.Load(), Replaced: c.replaced.Load(),
		Inbound: c.inbound.Load(), Outbound: c.outbound.Load(),
	}
}
