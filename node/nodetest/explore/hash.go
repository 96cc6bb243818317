package explore

import (
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"

	"github.com/treequorum/dmutex/node"
)

// hasher makes one number of a world, equal for two whose futures are the same.
type hasher struct {
	plans   map[reflect.Type]visit
	rules   map[string]visit
	used    map[string]bool
	core    visit
	message visit

	// Of the world at hand.
	sum   uint64
	now   node.Instant
	times []node.Timestamp
	live  bool // somebody will ask yet, so that clocks matter
}

// visit adds a value to the hash.
type visit func(h *hasher, v reflect.Value)

func newHasher() *hasher {
	h := &hasher{plans: map[reflect.Type]visit{}, rules: hashRules(), used: map[string]bool{}}
	h.core = h.plan(reflect.TypeFor[node.Node]())
	h.message = h.plan(reflect.TypeFor[node.Message]())
	return h
}

// world returns the hash of a world.
func (h *hasher) world(w *world) uint64 {
	h.now, h.times, h.live = w.now, w.times, false
	for i := range w.places {
		h.live = h.live || w.places[i].left > 0
	}
	var flight uint64 // their order means nothing
	for _, m := range w.flight {
		h.sum = 1
		h.message(h, reflect.ValueOf(m).Elem())
		flight += h.sum
	}
	var cores [maxNodes]uint64
	for i := range w.nodes {
		p := &w.places[i]
		if p.sumAt != w.now || p.sumLive != h.live {
			h.sum = 2
			h.core(h, reflect.ValueOf(p.core).Elem())
			p.sum, p.sumAt, p.sumLive = h.sum, w.now, h.live
		}
		cores[i] = p.sum
	}
	h.sum = 3
	h.add(flight)
	for i := range w.nodes {
		p := &w.places[i]
		h.add(cores[i])
		h.add(uint64(p.want))
		h.add(uint64(p.left))
		if p.want != idle {
			h.add(uint64(p.call))
		}
	}
	for _, n := range [...]int{
		w.cut, w.left.Wakes, w.left.Sleeps, w.left.Lost, w.left.Doubled, w.left.Restarts, w.left.Cuts, w.left.Cancels,
	} {
		h.add(uint64(n))
	}
	if h.live {
		h.add(uint64(w.calls))
	}
	h.add(w.token)
	return h.sum
}

func (h *hasher) add(x uint64) {
	hi, lo := bits.Mul64(h.sum^0x9e3779b97f4a7c15, x^0xd6e8feb86659fd93)
	h.sum = bits.RotateLeft64(h.sum, 23) + (hi ^ lo)
}

func (h *hasher) text(s string) {
	h.add(uint64(len(s)))
	for i := range len(s) {
		h.add(uint64(s[i]))
	}
}

// plan makes the visit of a type once. Pointers are followed; those that lead back need a
// rule. A kind of value that it does not know is an error of this package.
func (h *hasher) plan(t reflect.Type) visit {
	if v, ok := h.plans[t]; ok {
		return v
	}
	var made visit
	h.plans[t] = func(h *hasher, v reflect.Value) { made(h, v) } // for types that hold themselves
	made = h.make(t)
	h.plans[t] = made
	return made
}

func (h *hasher) make(t reflect.Type) visit {
	switch t {
	case reflect.TypeFor[node.Instant]():
		return instant
	case reflect.TypeFor[node.Timestamp]():
		return order
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(h *hasher, v reflect.Value) {
			if v.Bool() {
				h.add(1)
			} else {
				h.add(0)
			}
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(h *hasher, v reflect.Value) { h.add(uint64(v.Int())) }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(h *hasher, v reflect.Value) { h.add(v.Uint()) }
	case reflect.String:
		return func(h *hasher, v reflect.Value) { h.text(v.String()) }
	case reflect.Struct:
		return h.makeStruct(t)
	case reflect.Array, reflect.Slice:
		element := h.plan(t.Elem())
		return func(h *hasher, v reflect.Value) {
			h.add(uint64(v.Len()))
			for i := range v.Len() {
				element(h, v.Index(i))
			}
		}
	case reflect.Map:
		return h.makeMap(t)
	case reflect.Pointer:
		to := h.plan(t.Elem())
		return func(h *hasher, v reflect.Value) {
			if v.IsNil() {
				h.add(0)
				return
			}
			h.add(1)
			to(h, v.Elem())
		}
	default:
		panic(fmt.Sprintf("explore: no rule says how to hash a %v", t))
	}
}

func (h *hasher) makeStruct(t reflect.Type) visit {
	type field struct {
		at    int
		visit visit
	}
	var fields []field
	for i := range t.NumField() {
		name := t.Name() + "." + t.Field(i).Name
		if rule, ok := h.rules[name]; ok {
			h.used[name] = true
			if rule != nil {
				fields = append(fields, field{i, rule})
			}
			continue
		}
		fields = append(fields, field{i, h.plan(t.Field(i).Type)})
	}
	return func(h *hasher, v reflect.Value) {
		for _, f := range fields {
			f.visit(h, v.Field(f.at))
		}
	}
}

func (h *hasher) makeMap(t reflect.Type) visit {
	key, value := h.plan(t.Key()), h.plan(t.Elem())
	return func(h *hasher, v reflect.Value) {
		h.add(uint64(v.Len()))
		if v.Len() == 0 {
			return
		}
		before, all := h.sum, uint64(0)
		for it := v.MapRange(); it.Next(); {
			h.sum = 4
			key(h, it.Key())
			value(h, it.Value())
			all += h.sum
		}
		h.sum = before
		h.add(all)
	}
}

// instant counts from the present. Zero means none, and one that never comes stays so.
func instant(h *hasher, v reflect.Value) {
	switch at := v.Int(); at {
	case 0, math.MaxInt64:
		h.add(uint64(at))
	default:
		h.add(uint64(at-int64(h.now)) ^ 1<<63)
	}
}

// order is for the timestamp of a request. Once nobody will ask any more they are
// compared with each other only.
func order(h *hasher, v reflect.Value) {
	if h.live || v.Int() == 0 {
		instant(h, v)
		return
	}
	i, known := slices.BinarySearch(h.times, node.Timestamp(v.Int()))
	h.add(uint64(2 * i))
	if known {
		h.add(1)
	}
}

// clock is for what decides the timestamps of further requests, and nothing else: it
// means nothing when there are none.
func clock(h *hasher, v reflect.Value) {
	if h.live {
		instant(h, v)
	}
}

// hashRules says what is left out (nil) or hashed in a way of its own, by type and field.
func hashRules() map[string]visit {
	rules := map[string]visit{
		"Node.clock":          clock,
		"Message.Timestamp":   clock,
		"timers.heap":         timersOf, // by time, then in the order of setting
		"timers.seq":          nil,      // only that order matters
		"Node.started":        started,
		"request.local":       nameOf, // leads back
		"lockState.grant":     entryOf,
		"requester.calls":     nil, // those of all locals
		"caller.local":        nil, // leads back
		"local.req":           nil, // in requester.requests, with the name
		"entry.session":       nil, // leads back
		"requester.free":      nil, // cleared before use
		"requester.bestFirst": nil, // scratch, as the next two
		"requester.values":    nil,
		"requester.votes":     nil,
		"requester.stats":     nil, // decides nothing
		"request.tree":        nil, // follows from the name
		"Node.out":            nil, // was taken
	}
	// What a node is given at its start and never changes.
	for _, field := range [...]string{"cfg", "tm", "limits", "fingerprint", "members", "index", "self", "majority", "trees"} {
		rules["Node."+field] = nil
	}
	// Timers are hashed in the heap.
	for _, owner := range [...]string{"peerTimer", "floorsTimer", "quarantineTimer", "request", "session", "lockState"} {
		rules[owner+".timer"] = nil
	}
	rules["lockState.queue"] = func(h *hasher, v reflect.Value) {
		h.add(uint64(v.Len()))
		for i := range v.Len() {
			entryOf(h, v.Index(i))
		}
	}
	return rules
}

// started matters only until the node is older than a quarantine.
func started(h *hasher, v reflect.Value) {
	if age := int64(h.now) - v.Int(); age <= 2*int64(ttl) {
		h.add(uint64(age))
	}
}

func nameOf(h *hasher, v reflect.Value) { h.text(v.Elem().FieldByName("name").String()) }

// entryOf names a request at a member, which is hashed with its session.
func entryOf(h *hasher, v reflect.Value) {
	if v.IsNil() {
		h.add(0)
		return
	}
	h.add(v.Elem().FieldByName("session").Elem().FieldByName("number").Uint())
	h.add(v.Elem().FieldByName("id").Uint())
}

// timersOf hashes what is to be done, in order.
func timersOf(h *hasher, v reflect.Value) {
	type due struct {
		at    int64
		seq   uint64
		owner reflect.Value
	}
	dues := make([]due, 0, 16)
	for i := range v.Len() {
		t := v.Index(i).Elem()
		dues = append(dues, due{t.Field(0).Int(), t.Field(1).Uint(), t.Field(3).Elem().Elem()})
	}
	slices.SortFunc(dues, func(a, b due) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return int(a.seq) - int(b.seq)
	})
	for _, d := range dues {
		h.add(uint64(d.at - int64(h.now)))
		h.owner(d.owner)
	}
}

func (h *hasher) owner(v reflect.Value) {
	h.text(v.Type().Name())
	switch v.Type().Name() {
	case "session":
		h.add(v.FieldByName("number").Uint())
	case "request":
		h.add(v.FieldByName("id").Uint())
	case "lockState":
		h.text(v.FieldByName("name").String())
	}
}
