package ownership

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOneDecision: Disclose is the only decision whether values are shown. No other package compares an object with the annotation
// or calls an object sensitive by its kind, and none shows values without asking about an object.
func TestOneDecision(t *testing.T) {
	t.Parallel()
	// The files that write the mark, or store it for Disclose.
	marks := map[string]bool{
		"pkg/reconcile/desired/read.go": true, "pkg/reconcile/owners/adoption.go": true, // they set it
		"pkg/trigger/health.go": true, "pkg/reconcile/apply/record.go": true, // they remember it
		"pkg/parts/sensitive.go": true, // it moves such objects into a Secret
	}
	// The errors in these files are about rights and lists, not about an object.
	shows := map[string]bool{"pkg/insight/differ.go": true, "pkg/insight/removals.go": true}
	for _, root := range []string{"pkg", "cmd"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", root), func(path string, entry fs.DirEntry, err error) error {
			name, _ := strings.CutPrefix(filepath.ToSlash(path), "../../")
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "pkg/ownership/") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			asked := map[ast.Expr]bool{} // the calls of Disclose that With completes
			ast.Inspect(file, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.SelectorExpr:
					if of, is := node.X.(*ast.Ident); is && of.Name == "ownership" && (node.Sel.Name == "SensitiveAnnotation" || node.Sel.Name == "Annotated") {
						require.True(t, marks[name], "%s uses ownership.%s: let ownership.Disclose decide", name, node.Sel.Name)
					}
				case *ast.BasicLit:
					require.NotEqual(t, `"`+SensitiveAnnotation+`"`, node.Value, "%s has the annotation as a text: let ownership.Disclose decide", name)
				case *ast.CallExpr:
					called, is := node.Fun.(*ast.SelectorExpr)
					switch {
					case is && called.Sel.Name == "With":
						asked[called.X] = true
					case is && called.Sel.Name == "Disclose" && showsAll(node.Args):
						require.True(t, asked[node] || shows[name], "%s shows values without a question about the object", name)
					}
				}
				return true
			})
			return nil
		}))
	}
}

// showsAll reports whether the arguments of Disclose are constants.
func showsAll(args []ast.Expr) bool {
	for _, arg := range args {
		if constant, is := arg.(*ast.Ident); !is || constant.Name != "false" {
			return false
		}
	}
	return true
}
