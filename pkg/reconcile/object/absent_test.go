package object

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIsAbsent(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"the object":                {apierrors.NewNotFound(secrets, "login"), true},
		"wrapped":                   {fmt.Errorf("read: %w", apierrors.NewNotFound(secrets, "login")), true},
		"another one":               {apierrors.NewNotFound(secrets, "other"), false},
		"a kind that is not served": {apierrors.NewNotFound(secrets, ""), false},
		"a text of a proxy":         {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", secrets, "login", "404 page not found", 0, true), false},
		"no answer":                 {errors.New("connection refused"), false},
	} {
		require.Equal(t, tc.want, IsAbsent(tc.err, "login"), name)
	}
}
