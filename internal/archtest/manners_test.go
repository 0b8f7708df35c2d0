package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	maxFunction  = 80  // lines
	maxFile      = 600 // lines
	maxInterface = 3   // methods
)

// promises are words of comments that put something off.
var promises = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b|(?i)\bfor now\b`)

// mutable are types of package variables that can only be there to change.
var mutable = regexp.MustCompile(`^\*?(sync\.(Mutex|RWMutex|Map|Once|WaitGroup|Cond)|atomic\.\w+(\[.*\])?)$`)

// configured are packages whose numbers come from configurations.
var configured = regexp.MustCompile(`^weir/internal/(plugins|policies|discovery|dialect|quota|logentry|redisclient|threescale|health)(/|$)`)

// unit is one of time that a number of a configuration may be multiplied by.
var unit = regexp.MustCompile(`^(float64\()?time\.(Millisecond|Second|Minute|Hour)\)?$`)

// TestManners looks at everything but tests.
func TestManners(t *testing.T) {
	for _, p := range packages(t) {
		var files []source
		for _, f := range p.GoFiles {
			files = append(files, source{path: filepath.Join(p.Dir, f)})
		}
		for _, problem := range mannerProblems(p.ImportPath, files) {
			t.Error(problem)
		}
	}
}

// A source is a file; its text is read from path if nil.
type source struct {
	path string
	text any
}

// A review collects what is wrong with a package.
type review struct {
	fset     *token.FileSet
	files    []*ast.File
	info     *types.Info
	scope    *types.Scope
	problems []string
}

func mannerProblems(path string, sources []source) []string {
	r := review{fset: token.NewFileSet()}
	for _, s := range sources {
		f, err := parser.ParseFile(r.fset, s.path, s.text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return []string{err.Error()}
		}
		r.files = append(r.files, f)
	}
	r.resolve(path)
	r.packageComment(path)
	for _, f := range r.files {
		if n := r.fset.Position(f.End()).Line; n > maxFile {
			r.report(f.Package, "file of %d lines, limit %d", n, maxFile)
		}
		r.comments(f)
		r.declarations(f)
		if configured.MatchString(path) {
			r.lengths(f)
		}
	}
	return r.problems
}

func (r *review) report(pos token.Pos, format string, args ...any) {
	at := r.fset.Position(pos)
	r.problems = append(r.problems, fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, fmt.Sprintf(format, args...)))
}

// resolve finds out which variable each name means. Imports are left out: they
// have no variables of this package.
func (r *review) resolve(path string) {
	r.info = &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{
		Error:    func(error) {}, // the compiler's business
		Importer: noImports{},
	}
	p, _ := conf.Check(path, r.fset, r.files, r.info)
	r.scope = p.Scope()
}

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

func (r *review) packageComment(path string) {
	var in []string
	for _, f := range r.files {
		if f.Doc != nil {
			in = append(in, filepath.Base(r.fset.Position(f.Package).Filename))
		}
	}
	if len(r.files) > 0 && len(in) != 1 {
		r.problems = append(r.problems, fmt.Sprintf("%s: package comment in %d files %v, want one", path, len(in), in))
	}
}

func (r *review) comments(f *ast.File) {
	for _, g := range f.Comments {
		for _, c := range g.List {
			if p := promises.FindString(c.Text); p != "" {
				r.report(c.Pos(), "comment says %q", p)
			}
		}
	}
}

func (r *review) declarations(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			r.function(d)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR {
					r.variable(v)
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if it, ok := n.(*ast.InterfaceType); ok {
			if m := it.Methods.NumFields(); m > maxInterface {
				r.report(it.Pos(), "interface with %d methods, limit %d", m, maxInterface)
			}
		}
		return true
	})
}

// lengths refuses to multiply numbers by units of time: a number of a configuration or of
// an answer may be any, and the product of no length any more.
func (r *review) lengths(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		product, is := n.(*ast.BinaryExpr)
		if !is || product.Op != token.MUL {
			return true
		}
		for _, side := range [][2]ast.Expr{{product.X, product.Y}, {product.Y, product.X}} {
			if unit.MatchString(types.ExprString(side[0])) && !isConstant(side[1]) {
				r.report(product.Pos(), "%s may be more than a length of time: schema.Seconds and schema.Milliseconds bound it", types.ExprString(product))
			}
		}
		return true
	})
}

func isConstant(e ast.Expr) bool {
	if product, is := e.(*ast.BinaryExpr); is {
		return isConstant(product.X) && isConstant(product.Y)
	}
	_, literal := e.(*ast.BasicLit)
	return literal
}

func (r *review) variable(v *ast.ValueSpec) {
	typ := v.Type
	if typ == nil && len(v.Values) == 1 {
		if lit, ok := v.Values[0].(*ast.CompositeLit); ok {
			typ = lit.Type
		}
	}
	if typ != nil && mutable.MatchString(types.ExprString(typ)) {
		r.report(v.Pos(), "package variable %s of a type that only serves to change", v.Names[0].Name)
	}
}

func (r *review) function(fn *ast.FuncDecl) {
	name := fn.Name.Name
	if fn.Recv == nil && name == "init" {
		r.report(fn.Pos(), "init function")
	}
	if n := r.fset.Position(fn.End()).Line - r.fset.Position(fn.Pos()).Line + 1; n > maxFunction {
		r.report(fn.Pos(), "%s has %d lines, limit %d", name, n, maxFunction)
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		var targets []ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			targets = n.Lhs
		case *ast.IncDecStmt:
			targets = []ast.Expr{n.X}
		case *ast.RangeStmt:
			targets = slices.DeleteFunc([]ast.Expr{n.Key, n.Value}, func(e ast.Expr) bool { return e == nil })
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				targets = []ast.Expr{n.X}
			}
		}
		for _, e := range targets {
			if id := root(e); id != nil && r.isPackageVariable(id) {
				r.report(e.Pos(), "package variable %s is assigned, or its address taken", id.Name)
			}
		}
		return true
	})
}

func (r *review) isPackageVariable(id *ast.Ident) bool {
	v, ok := r.info.Uses[id].(*types.Var)
	return ok && v.Parent() == r.scope
}

// root is x of x, x.f, x[i], *x and (x); nil for other expressions.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// TestMannersRefuse makes sure that the test above can fail.
func TestMannersRefuse(t *testing.T) {
	long := "func f() {\n" + strings.Repeat("_ = 1\n", 80) + "}\n"
	for _, c := range []struct{ text, want string }{
		{"func init() {}", "init function"},
		{"var x int\nfunc f() { x = 1 }", "package variable x is assigned"},
		{"var x int\nfunc f() { x++ }", "package variable x is assigned"},
		{"var x map[string]int\nfunc f() { x[`a`] = 1 }", "package variable x is assigned"},
		{"var x struct{ a []int }\nfunc f() { x.a[0] += 1 }", "package variable x is assigned"},
		{"var x int\nfunc f() { g(&x) }\nfunc g(*int) {}", "its address taken"},
		{"var x int\nfunc f() { for x = range 3 {} }", "package variable x is assigned"},
		{"var x int\nfunc f() { x := 2; x = 3; _ = x }", ""},
		{"var x = 1\nfunc f() int { return x }", ""},
		{"import `sync`\nvar mu sync.Mutex", "only serves to change"},
		{"import `sync/atomic`\nvar n atomic.Int64", "only serves to change"},
		{"import `sync`\nvar pool = sync.Pool{}", ""},
		{long, "f has 82 lines"},
		{strings.Repeat("\n", 600), "file of"},
		{"// TODO: later\nvar x int", `comment says "TODO"`},
		{"// Good enough for now.\nvar x int", `comment says "for now"`},
		{"type i interface{ A(); B(); C(); D() }", "interface with 4 methods"},
		{"type i interface{ A(); B(); C() }", ""},
	} {
		text := "// Package p is one.\npackage p\n" + c.text + "\nvar _ = 0\n"
		got := strings.Join(mannerProblems("p", []source{{path: "p.go", text: text}}), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%.40q: got %q, want %q", c.text, got, c.want)
		}
	}
	for text, refused := range map[string]bool{
		"var d = time.Duration(n) * time.Second":              true,
		"var d = time.Millisecond * time.Duration(n)":         true,
		"var d = time.Duration(n * float64(time.Second))":     true,
		"var d = 24 * 365 * time.Hour":                        false,
		"var d = schema.Seconds(n)":                           false,
		"var d = time.Duration(answer[0]) * time.Microsecond": false,
	} {
		file := []source{{path: "p.go", text: "// Package p is one.\npackage p\n" + text}}
		if got := mannerProblems("weir/internal/plugins/p", file); (len(got) > 0) != refused {
			t.Errorf("%s: %q", text, got)
		}
		if got := mannerProblems("weir/internal/bench", file); len(got) > 0 {
			t.Errorf("%s: %q", text, got)
		}
	}
	for n, files := range [][]source{
		{{path: "a.go", text: "package p"}},
		{{path: "a.go", text: "// Package p.\npackage p"}, {path: "b.go", text: "// Package p.\npackage p"}},
	} {
		if got := mannerProblems("p", files); len(got) != 1 || !strings.Contains(got[0], "package comment in") {
			t.Errorf("case %d: got %q", n, got)
		}
	}
}
