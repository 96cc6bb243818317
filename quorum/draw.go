package quorum

import (
	"strconv"
	"strings"
)

const (
	drawWidth = 80 // columns of a terminal; a wider tree is drawn as an outline
	drawGap   = 3  // columns between two subtrees
)

// String draws the tree with the members' indexes.
func (t *Tree) String() string { return t.Draw(nil) }

// Draw returns the tree as lines of text, each ended by a newline: the root on
// top and each level in a row of its own or, when this would be wider than 80
// columns, an outline with a line for each member. label says what stands for a
// member; it must be one line without escape sequences, each rune one column wide.
// A nil label stands for the index. All is ASCII but for what label returns.
func (t *Tree) Draw(label func(member int) string) string {
	if label == nil {
		label = strconv.Itoa
	}
	labels := make([]string, t.Size())
	for i := range labels {
		labels[i] = label(i)
	}
	var b strings.Builder
	if d := t.sketch(t.root, labels); d.width <= drawWidth {
		for _, row := range d.rows {
			b.WriteString(strings.TrimRight(row, " "))
			b.WriteByte('\n')
		}
		return b.String()
	}
	t.outline(&b, t.root, labels, "", "", "")
	return b.String()
}

// drawing is a subtree in rows that are all of one width. The root's label hangs
// over the column center.
type drawing struct {
	rows          []string
	width, center int
}

// sketch draws the subtree of v.
func (t *Tree) sketch(v int, labels []string) drawing {
	n := t.nodes[v]
	if n.right == none {
		w := columns(labels[v])
		return drawing{rows: []string{labels[v]}, width: w, center: max(w-1, 0) / 2}
	}
	right := t.sketch(n.right, labels)
	if n.left == none {
		return right.under(labels[v], spaces(right.center)+"|")
	}
	left := t.sketch(n.left, labels)
	both := left.beside(right)
	end := left.width + drawGap + right.center
	branch := spaces(left.center) + "." + strings.Repeat("-", both.center-left.center-1) +
		"+" + strings.Repeat("-", end-both.center-1) + "."
	return both.under(labels[v], branch)
}

// beside puts o to the right of d.
func (d drawing) beside(o drawing) drawing {
	rows := make([]string, 0, max(len(d.rows), len(o.rows)))
	for i := range cap(rows) {
		rows = append(rows, d.row(i)+spaces(drawGap)+o.row(i))
	}
	return drawing{
		rows:   rows,
		width:  d.width + drawGap + o.width,
		center: (d.center + d.width + drawGap + o.center) / 2,
	}
}

// row returns row i, blank below the last one.
func (d drawing) row(i int) string {
	if i < len(d.rows) {
		return d.rows[i]
	}
	return spaces(d.width)
}

// under puts d under a label and the branch that leads to it, and makes room on
// both sides for a label that is wider than what it stands on.
func (d drawing) under(label, branch string) drawing {
	w := columns(label)
	start := d.center - max(w-1, 0)/2
	shift := max(-start, 0)
	width := max(d.width+shift, start+shift+w, shift+columns(branch))
	rows := []string{spaces(start+shift) + label, spaces(shift) + branch}
	for _, row := range d.rows {
		rows = append(rows, spaces(shift)+row)
	}
	for i, row := range rows {
		rows[i] = row + spaces(width-columns(row))
	}
	return drawing{rows: rows, width: width, center: d.center + shift}
}

// outline writes v and, indented, all below it. What hangs on v is drawn behind
// indent, v itself behind hook.
func (t *Tree) outline(b *strings.Builder, v int, labels []string, indent, hook, below string) {
	b.WriteString(indent + hook + labels[v] + "\n")
	n := t.nodes[v]
	if n.left != none {
		t.outline(b, n.left, labels, indent+below, "|-- ", "|   ")
	}
	if n.right != none {
		t.outline(b, n.right, labels, indent+below, "`-- ", "    ")
	}
}

// columns counts the runes of s.
func columns(s string) int {
	n := 0
	for range s {
		n++
	}
	return n
}

func spaces(n int) string { return strings.Repeat(" ", n) }
