package demo

import (
	"fmt"
	"slices"
	"time"
)

// maxHolds bounds the judge's record. What comes after is judged and counted,
// but not kept, so that latencies are those of the first million holds.
const maxHolds = 1 << 20

// ending says how a hold was over for the judge.
type ending uint8

// The endings.
const (
	inside  ending = iota // not over yet
	left                  // the process said so, and was acknowledged
	expired               // the last deadline told had passed before it left
	died                  // the process ended inside
)

// hold is what the judge knows of one time that a process had the lock. All
// moments are readings of CLOCK_BOOTTIME, which all processes of a machine share.
type hold struct {
	Process  int           // number of the process; a restarted one gets a new number
	Seq      uint64        // counts the holds of that process
	Call     time.Duration // when it called Lock
	Had      time.Duration // when Lock returned
	Entered  time.Duration // when the judge read that it is inside
	Deadline time.Duration // last deadline told; the lock is not held from then on
	Over     time.Duration // when it was out: left, dead, or past its deadline
	Ending   ending

	// Of a hold past its deadline: who entered first since then. A renewal that
	// the process sent before, and that is read late, shows whether they met.
	nextHad time.Duration
	nextBy  int
}

// judge decides whether two processes ever had the lock at one time. It trusts
// the processes to say when they have it, and nothing of the cluster. A process
// waits for the judge's word after its enter and after its leave, both inside
// its hold: whoever gets the lock next can only say so afterwards. So the
// judge's order is that of the holds, and an overlap that it sees is real.
//
// A judge does no I/O and reads no clock. One goroutine uses it at a time.
type judge struct {
	current []hold // who is inside; more than one after an overlap
	late    []hold // past their deadline, and not heard of since
	past    []hold // holds that are over, in the order of their end, at most maxHolds

	lastOver    time.Duration // latest end of any hold
	lastOverBy  int           // and whose it was
	lastEnterBy int           // process of the latest enter, -1 before the first

	acquisitions int
	handovers    int     // enters by another process than the one before
	overlaps     int     // enters into, and renewals beyond, the hold of another
	expired      int     // holds whose process came out late
	first        meeting // the first overlap
}

// meeting is one overlap: who was seen inside together.
type meeting struct{ process, other int }

func newJudge() *judge { return &judge{lastOverBy: -1, lastEnterBy: -1} }

// enter takes note that h's process has the lock since h.Had, and counts one
// overlap when another still had it then. The error means that the process does
// not keep to the rules of the pipe, and that no verdict can be had from it.
func (j *judge) enter(h hold) error {
	for _, list := range [][]hold{j.current, j.late} {
		for _, c := range list {
			if c.Process == h.Process {
				return fmt.Errorf("process %d entered hold %d without leaving hold %d", h.Process, h.Seq, c.Seq)
			}
		}
	}
	// Nobody has it later than the judge read it, whatever the process's clock says.
	h.Had = min(h.Had, h.Entered)
	h.Ending = inside
	j.expire(h.Had)
	switch {
	case len(j.current) > 0:
		j.overlap(h, j.current[0].Process)
	case h.Had < j.lastOver:
		j.overlap(h, j.lastOverBy) // the other is out by now, but was not then
	}
	for i := range j.late {
		if j.late[i].nextBy < 0 {
			j.late[i].nextHad, j.late[i].nextBy = h.Had, h.Process
		}
	}
	if j.lastEnterBy >= 0 && j.lastEnterBy != h.Process {
		j.handovers++
	}
	j.lastEnterBy = h.Process
	j.acquisitions++
	j.current = append(j.current, h)
	return nil
}

// renew moves the deadline of a hold on. When the judge took the hold for
// expired already, it was not: then somebody may have entered in the meantime.
func (j *judge) renew(process int, seq uint64, deadline time.Duration) {
	if i := find(j.current, process, seq); i >= 0 {
		j.current[i].Deadline = max(j.current[i].Deadline, deadline)
		return
	}
	i := find(j.late, process, seq)
	if i < 0 || deadline <= j.late[i].Deadline {
		return
	}
	h := j.late[i]
	j.late = remove(j.late, i)
	if h.nextBy >= 0 && h.nextHad < deadline {
		j.overlap(h, h.nextBy)
	}
	h.Deadline, h.Ending = deadline, inside
	j.expired--
	j.current = append(j.current, h)
}

// leave ends a hold at now, or at its deadline when that came first. The process
// may unlock only once it knows that leave returned.
func (j *judge) leave(process int, seq uint64, deadline, now time.Duration) error {
	j.renew(process, seq, deadline)
	j.expire(now)
	if i := find(j.current, process, seq); i >= 0 {
		h := j.current[i]
		j.current = remove(j.current, i)
		h.Over, h.Ending = now, left
		j.close(h)
		return nil
	}
	if i := find(j.late, process, seq); i >= 0 {
		h := j.late[i]
		j.late = remove(j.late, i)
		j.close(h)
		return nil
	}
	return fmt.Errorf("process %d left hold %d, in which it is not", process, seq)
}

// death ends what a process held when it died, and reports whether it had the
// lock until then.
func (j *judge) death(process int, now time.Duration) bool {
	for i, h := range j.current {
		if h.Process == process {
			j.current = remove(j.current, i)
			h.Over, h.Ending = min(now, h.Deadline), died
			j.close(h)
			return true
		}
	}
	for i, h := range j.late {
		if h.Process == process {
			j.late = remove(j.late, i)
			j.close(h)
			break
		}
	}
	return false
}

// holders are the processes that are inside.
func (j *judge) holders() []int {
	numbers := make([]int, 0, len(j.current))
	for _, h := range j.current {
		numbers = append(numbers, h.Process)
	}
	return numbers
}

// expire takes those out whose deadline is not after now.
func (j *judge) expire(now time.Duration) {
	for i, h := range slices.Backward(j.current) { // remove leaves what is before i
		if h.Deadline <= now {
			j.current = remove(j.current, i)
			h.Over, h.Ending, h.nextBy = h.Deadline, expired, -1
			j.note(h)
			j.expired++
			j.late = append(j.late, h)
		}
	}
}

// overlap counts, and keeps the first for the report.
func (j *judge) overlap(h hold, other int) {
	if j.overlaps == 0 {
		j.first = meeting{process: h.Process, other: other}
	}
	j.overlaps++
}

// close moves a hold that is over to the record.
func (j *judge) close(h hold) {
	j.note(h)
	if len(j.past) < maxHolds {
		j.past = append(j.past, h)
	}
}

func (j *judge) note(h hold) {
	if h.Over > j.lastOver {
		j.lastOver, j.lastOverBy = h.Over, h.Process
	}
}

func find(holds []hold, process int, seq uint64) int {
	for i, h := range holds {
		if h.Process == process && h.Seq == seq {
			return i
		}
	}
	return -1
}

func remove(holds []hold, i int) []hold { return slices.Delete(holds, i, i+1) }
