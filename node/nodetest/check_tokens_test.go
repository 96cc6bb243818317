package nodetest

import "testing"

// knowing is a checker of three members that all run and know their floors.
func knowing(walls bool) *tokens {
	k := newTokens(3, walls)
	for i := range 3 {
		k.memory(i, true)
	}
	return k
}

func TestTokensMustRise(t *testing.T) {
	k := knowing(true)
	first, second, third := k.lease("L"), k.lease("L"), k.lease("L")
	wantKind(t, k.fixed("L", first, 10, "a"), "")
	wantKind(t, k.fixed("L", third, 30, "c"), "")
	wantKind(t, k.fixed("other", k.lease("other"), 5, "a"), "")
	wantKind(t, k.fixed("L", first, 10, "a"), "") // told again
	for _, token := range []uint64{9, 10, 30, 31} {
		wantKind(t, k.fixed("L", second, token, "b"), "tokens")
	}
	wantKind(t, k.fixed("L", second, 20, "b"), "")
}

// A majority without memory excuses what came before it, if wall clocks are wrong.
func TestTokensMayFallOnce(t *testing.T) {
	for _, tt := range []struct {
		name    string
		walls   bool
		lose    int
		kind    string
		excused uint64
	}{
		{"a majority, wall clocks wrong", true, 2, "", 1},
		{"a majority, wall clocks right", false, 2, "tokens", 0},
		{"a minority", true, 1, "tokens", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := knowing(tt.walls)
			wantKind(t, k.fixed("L", k.lease("L"), 10, "a"), "")
			for i := range tt.lose {
				k.memory(i, false)
			}
			for i := range tt.lose {
				k.memory(i, true)
			}
			wantKind(t, k.fixed("L", k.lease("L"), 5, "b"), tt.kind)
			if k.excused != tt.excused {
				t.Errorf("%d excused, want %d", k.excused, tt.excused)
			}
			if tt.kind == "" {
				wantKind(t, k.fixed("L", k.lease("L"), 4, "c"), "tokens") // once is enough
			}
		})
	}
}
