package main

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
)

// TestLeaseThatCannotBeWatched has another replica hold the Lease, which this one may not watch, as
// after an upgrade without the new Role. The elector gets the Lease and sees by itself when it
// expires. Only what Get does with the refusal is tested here, so no API server is needed.
func TestLeaseThatCannotBeWatched(t *testing.T) {
	t.Parallel()
	name := metav1.ObjectMeta{Namespace: "vidra-system", Name: "vidra"}
	server := fake.NewClientset([]runtime.Object{&coordinationv1.Lease{ObjectMeta: name, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("other"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NowMicro()),
	}}}...)
	server.PrependWatchReactor("leases", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), name.Name, nil)
	})
	lines := 0
	lock := &installationLock{
		LeaseLock: &resourcelock.LeaseLock{LeaseMeta: name, Client: server.CoordinationV1()}, replica: newReplica(), log: funcr.New(func(string, string) { lines++ }, funcr.Options{}),
		watches: server.CoordinationV1().Leases(name.Namespace),
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for range 3 {
		record, _, err := lock.Get(ctx)
		require.NoError(t, err)
		require.Equal(t, "other", record.HolderIdentity)
	}
	require.Equal(t, 1, lines, "the elector gets the Lease every few seconds")
}
