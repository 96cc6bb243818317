package node

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowedImports are what the rules may use: nothing with a clock, chance or I/O in it.
func allowedImports() []string {
	return []string{
		"cmp", "errors", "fmt", "iter", "math", "math/bits", "slices", "strconv", "strings",
		"github.com/treequorum/dmutex/quorum", "github.com/treequorum/dmutex/node/internal/breakage",
	}
}

// noImports lets the types of this package be checked without those of others: a map
// that a loop here goes over is made here.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

// impurities returns what in the files is not pure: imports, goroutines, channels, and
// loops over maps, whose order differs from run to run. sortedKeys alone may have one.
func impurities(t *testing.T, files map[string]string) []string {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := parser.ParseFile(fset, name, files[name], 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: noImports{}, Error: func(error) {}}
	_, _ = conf.Check("node", fset, parsed, info) // fails at each use of another package
	var found []string
	for _, f := range parsed {
		for _, spec := range f.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(allowedImports(), path) {
				found = append(found, "import of "+path)
			}
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == "sortedKeys" {
				continue
			}
			if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.VAR && !onlyErrors(gen) {
				found = append(found, "variable of the package at "+fset.Position(gen.Pos()).String())
			}
			ast.Inspect(decl, func(node ast.Node) bool {
				if what := impure(node, info); what != "" {
					found = append(found, what+" at "+fset.Position(node.Pos()).String())
				}
				return true
			})
		}
	}
	return found
}

func onlyErrors(gen *ast.GenDecl) bool {
	for _, spec := range gen.Specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok {
			return false
		}
		for _, name := range value.Names {
			if name.Name != "_" && !strings.HasPrefix(name.Name, "Err") {
				return false
			}
		}
	}
	return true
}

func impure(node ast.Node, info *types.Info) string {
	switch x := node.(type) {
	case *ast.GoStmt:
		return "go statement"
	case *ast.SelectStmt:
		return "select"
	case *ast.ChanType:
		return "channel"
	case *ast.SendStmt:
		return "send"
	case *ast.RangeStmt:
		if typ := info.TypeOf(x.X); typ != nil {
			switch typ.Underlying().(type) {
			case *types.Map:
				return "loop over a map"
			case *types.Chan:
				return "loop over a channel"
			}
		}
	}
	return ""
}

func TestPackageIsPure(t *testing.T) {
	files := source(t)
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasSuffix(name, "_test.go") })
	for _, what := range impurities(t, files) {
		t.Error(what)
	}
}

// The check itself can fail.
func TestImpuritiesAreSeen(t *testing.T) {
	const impure = `package node
import "time"
var Count int
func f(m map[int]int, c chan int) {
	go f(m, c)
	for range m {}
	for range c {}
	c <- 1
	select {}
	_ = time.Now()
}
func sortedKeys(m map[int]int) { for range m {} }
`
	found := impurities(t, map[string]string{"x.go": impure})
	if len(found) != 8 { // the channel type is one of them
		t.Errorf("want 8 impurities, got %d: %v", len(found), found)
	}
}
