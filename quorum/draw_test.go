package quorum

import (
	"fmt"
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("n%d", i) }
	for _, c := range []struct {
		n, rotation int
		label       func(int) string
		want        string
	}{
		{1, 0, nil, `
0
`},
		{2, 0, nil, `
0
|
1
`},
		{3, 1, nil, `
  2
.-+-.
1   0
`},
		{7, 0, name, `
       n3
  .----+----.
  n1        n5
.-+--.    .-+--.
n0   n2   n4   n6
`},
		{4, 0, func(i int) string { return []string{"a", "the root", "c", ""}[i] }, `
the root
 .-+-.
 a   c
     |

`},
		{3, 0, func(i int) string { return []string{"ä", "ö (holds)", "ü"}[i] }, `
ö (holds)
  .-+-.
  ä   ü
`},
	} {
		got := mustNew(t, c.n, c.rotation).Draw(c.label)
		if got != c.want[1:] {
			t.Errorf("n=%d rotation=%d:\n%s\nwant\n%s", c.n, c.rotation, got, c.want[1:])
		}
	}
}

// A tree that is too wide for a terminal becomes an outline.
func TestDrawOutline(t *testing.T) {
	got := mustNew(t, 6, 0).Draw(func(i int) string { return strings.Repeat(string(rune('a'+i)), 30) })
	want := `
c
|-- a
|   ` + "`" + `-- b
` + "`" + `-- e
    |-- d
    ` + "`" + `-- f
`
	for _, r := range "abcdef" {
		got = strings.ReplaceAll(got, strings.Repeat(string(r), 30), string(r))
	}
	if got != want[1:] {
		t.Errorf("outline:\n%s\nwant\n%s", got, want[1:])
	}
}

// No picture is wider than a terminal, as far as the labels allow, and each
// member is in it once.
func TestDrawFits(t *testing.T) {
	for n := 1; n <= MaxMembers; n++ {
		for _, width := range []int{3, 7, 15} {
			got := mustNew(t, n, n/2).Draw(func(i int) string { return fmt.Sprintf("%0*d", width, i) })
			for i := range n {
				if c := strings.Count(got, fmt.Sprintf("%0*d", width, i)); c != 1 {
					t.Fatalf("n=%d: member %d is drawn %d times:\n%s", n, i, c, got)
				}
			}
			for line := range strings.Lines(got) {
				if len(line)-1 > 80 {
					t.Fatalf("n=%d: a line of %d columns:\n%s", n, len(line)-1, got)
				}
			}
			if wide := strings.Contains(got, "`--"); n <= 15 && width <= 7 && wide {
				t.Errorf("n=%d, names of %d: an outline; want a picture", n, width)
			}
		}
	}
}
