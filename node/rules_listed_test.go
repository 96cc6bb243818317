package node

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The last rule and the last invariant of doc.go.
const (
	lastRule      = LastRule
	lastInvariant = 4
)

// source reads the package's files, by name.
func source(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil || len(paths) < 10 {
		t.Fatalf("found %d files of the package: %v", len(paths), err)
	}
	files := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(text)
	}
	return files
}

// numbers collects what the expression's first group finds in the files that which picks.
func numbers(files map[string]string, which func(name string) bool, expression string) []string {
	re := regexp.MustCompile(expression)
	var found []string
	for name, text := range files {
		if !which(name) {
			continue
		}
		for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
			for _, match := range re.FindAllStringSubmatch(lines.Text(), -1) {
				found = append(found, match[1])
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Every rule stands in doc.go, at a branch that implements it, and in the name of a test;
// every invariant in doc.go and in the name of a test. And nothing else does.
func TestRulesAreListedImplementedAndTested(t *testing.T) {
	files := source(t)
	doc := func(name string) bool { return name == "doc.go" }
	test := func(name string) bool { return strings.HasSuffix(name, "_test.go") }
	code := func(name string) bool { return !doc(name) && !test(name) && name != "broken.go" }
	var rules, invariants []string
	for i := range lastRule {
		rules = append(rules, fmt.Sprint("R", i+1))
	}
	for i := range lastInvariant {
		invariants = append(invariants, fmt.Sprint("I", i+1))
	}
	for _, place := range []struct {
		name  string
		found []string
		want  []string
	}{
		{"rules in doc.go", numbers(files, doc, `^//\t(R\d+) `), rules},
		{"rules in comments of the code", numbers(files, code, `//.*?\b(R\d+)\b`), rules},
		{"rules in the names of tests", numbers(files, test, `^func Test(R\d+)_`), rules},
		{"invariants in doc.go", numbers(files, doc, `^//\t(I\d+) `), invariants},
		{"invariants in the names of tests", numbers(files, test, `^func Test(I\d+)_`), invariants},
	} {
		slices.Sort(place.want)
		for _, number := range place.want {
			if !slices.Contains(place.found, number) {
				t.Errorf("%s: %s is missing", place.name, number)
			}
		}
		for _, number := range place.found {
			if !slices.Contains(place.want, number) {
				t.Errorf("%s: %s is not known", place.name, number)
			}
		}
	}
}

// Every message type and its direction stand in the table of doc.go.
func TestMessagesAreListed(t *testing.T) {
	doc := source(t)["doc.go"]
	for which := MsgRequest; which < maxMessageType; which++ {
		direction := "to member"
		if which.FromMember() {
			direction = "to requester"
		}
		if !regexp.MustCompile(`(?m)^//\t` + which.String() + ` +` + direction + ` `).MatchString(doc) {
			t.Errorf("doc.go does not say that %v goes %s", which, direction)
		}
		if !which.Valid() {
			t.Errorf("%v is not valid", which)
		}
	}
	if MessageType(0).Valid() || maxMessageType.Valid() || MessageType(200).FromMember() {
		t.Error("a type that there is not is valid")
	}
}
