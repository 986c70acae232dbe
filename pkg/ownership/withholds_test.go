package ownership

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithholds(t *testing.T) {
	cases := map[string]struct {
		reason string
		object string
		want   bool
	}{
		"ConfigMap":   {"Everybody may know it.", `{"apiVersion":"v1","kind":"ConfigMap","data":{"password":"a"}}`, false},
		"Secret":      {"All of a Secret is withheld.", `{"apiVersion":"v1","kind":"Secret"}`, true},
		"Annotated":   {"The author says so.", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"infrahub.operators.com/sensitive":"true"}}}`, true},
		"Environment": {"Passwords are in environment variables, too.", `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","env":[{"name":"PASSWORD","value":"a"}]}]}}`, true},
		"Plain":       {"A Pod without variables has no such value.", `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a"}]}}`, false},
		"ValueFrom":   {"A reference is no value.", `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","env":[{"name":"PASSWORD","valueFrom":{"secretKeyRef":{"name":"a","key":"b"}}}]}]}}`, false},
		"LastApplied": {"kubectl keeps the whole object in an annotation.", `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}}}`, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Withholds(object(t, tc.object)), tc.reason)
		})
	}
}
