package access

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestClientsAreMadeInOnePlace requires that account.go alone makes clients: a client that
// is made elsewhere would not keep the rule of --require-service-account. It reads pkg/reconcile and
// all packages below it.
func TestClientsAreMadeInOnePlace(t *testing.T) {
	t.Parallel()
	made := map[string]int{}
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, isCall := n.(*ast.CallExpr)
			if !isCall {
				return true
			}
			if selected, is := call.Fun.(*ast.SelectorExpr); is && (selected.Sel.Name == "Dynamic" || selected.Sel.Name == "As") {
				if on, is := selected.X.(*ast.Ident); !is || on.Name != "errors" {
					made[path]++
				}
			}
			return true
		})
		return nil
	}))
	require.Equal(t, []string{"../access/account.go"}, slices.Collect(maps.Keys(made)))
}

func TestAccountMissing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason             string
		optional           bool
		account, namespace string
		says               string
	}{
		"none, and none is needed": {reason: "the rule is that of the flag", optional: true},
		"none":                     {reason: "Vidra would act with its own rights", namespace: "shop", says: "spec.serviceAccountName"},
		"one":                      {reason: "its rights count", account: "deployer", namespace: "shop"},
		"one of kube-system": {
			reason: "controllers have accounts there", account: "namespace-controller", namespace: metav1.NamespaceSystem, says: "kube-system",
		},
		"Vidra's own": {
			reason: "it would act with its own rights", account: "vidra-operator", namespace: "vidra-system", says: "vidra-system",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vr := &v1alpha1.VidraResource{}
			vr.Spec.ServiceAccountName, vr.Spec.Destination.Namespace = tt.account, tt.namespace
			why := Accounts{Own: "vidra-system", Required: !tt.optional}.Refused(t.Context(), vr)
			if tt.says == "" {
				require.Nil(t, why, tt.reason)
				return
			}
			require.NotNil(t, why, tt.reason)
			require.Equal(t, v1alpha1.ReasonServiceAccountRequired, why.Reason)
			require.Contains(t, why.Message, tt.says)
		})
	}
}

// TestFormerClientNeedsAnAccount: a status that another client wrote must not give Vidra's own rights.
func TestFormerClientNeedsAnAccount(t *testing.T) {
	t.Parallel()
	for _, account := range []string{"", "/", "deployer", "shop/", "/deployer"} {
		_, _, why := Accounts{}.FormerClient(t.Context(), account, nil)
		require.NotNil(t, why, account)
	}
	_, _, why := Accounts{Required: true, Own: "vidra-system"}.FormerClient(t.Context(), "kube-system/admin", nil)
	require.NotNil(t, why, "the rules of ClientOf hold")
}
