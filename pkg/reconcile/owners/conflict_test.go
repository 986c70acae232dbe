package owners

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRivals(t *testing.T) {
	disagrees := func(*CoOwner, string) bool { return false }
	conflict := func(with ...string) error {
		var causes []metav1.StatusCause
		for _, w := range with {
			causes = append(causes, metav1.StatusCause{
				Type: metav1.CauseTypeFieldManagerConflict, Message: "conflict with " + w, Field: ".data.color",
			})
		}
		return apierrors.NewApplyConflict(causes, "conflict")
	}
	owner := func(manager string) (*CoOwner, bool) { return &CoOwner{Name: "shop"}, manager == "vidra/shop" }
	none := func(string) (*CoOwner, bool) { return nil, false }
	require.NoError(t, ConflictIn(conflict(`"kubectl-edit" using v1`, `"helm"`), owner, disagrees), "fields of anybody else are taken back")
	require.EqualError(t, ConflictIn(conflict(`"helm"`, `"vidra/shop"`), owner, disagrees),
		"VidraResource shop wants another value of data.color: let only one of them set it")
	elsewhere := func(manager string) (*CoOwner, bool) { return &CoOwner{}, manager == "vidra/shop@east" }
	require.EqualError(t, ConflictIn(conflict(`"helm"`, `"vidra/shop@east"`), elsewhere, disagrees), "the field manager \"vidra/shop@east\" of another "+
		"Vidra installation wants another value of data.color: let only one of them set it, or set spec.adopt to Always to take it")
	require.NoError(t, ConflictIn(conflict(`"vidra/shop"`), none, disagrees), "the name of a VidraResource that does not own the object is anybody's")
	require.NoError(t, ConflictIn(conflict(`"vidra/shop" using v1 at 2026-01-01T00:00:00Z`), owner, disagrees), "Vidra owns no field by an update")
	require.NoError(t, ConflictIn(conflict(`"vidra/shop" with subresource "status"`), owner, disagrees), "or by a subresource")
	gone := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("uid"))
	require.Equal(t, gone, ConflictIn(gone, owner, disagrees), "a conflict that is not about fields stays an error")
}
