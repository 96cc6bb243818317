package nodetest

// eventKind tells what is to happen.
type eventKind uint8

const (
	eventDo      eventKind = iota // call do
	eventDeliver                  // give message arg to process who
	eventWake                     // process who does what is due
)

// event is something that is to happen at a moment.
type event struct {
	at   moment
	seq  uint64 // those of one moment happen in the order in which they were put in
	kind eventKind
	who  int32
	arg  int32
	do   func()
}

// events is a binary heap, written out because it is most of the run time.
type events struct {
	heap []event
	seq  uint64
}

func (q *events) put(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	h := q.heap
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// take returns the first event, false when there is none.
func (q *events) take() (event, bool) {
	if len(q.heap) == 0 {
		return event{}, false
	}
	h := q.heap
	first, last := h[0], len(h)-1
	e := h[last]
	h[last] = event{}
	q.heap, h = h[:last], h[:last]
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&e) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if last > 0 {
		h[i] = e
	}
	return first, true
}
