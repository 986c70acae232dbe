package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestSync follows artifacts from the server to live objects: created, changed, removed, and unchanged.
func TestSync(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"), l.artifact("c", "hello"))
	l.sync()
	is := l.await(v1alpha1.SyncReasonSynced, "3 artifacts")
	require.Equal(t, v1alpha1.SyncSucceeded, is.Status.SyncState)
	require.Len(t, is.Status.Checksums, 1, "all have the same greeting, but the names differ: no")
}

// login and query are the requests of a sync.
func login(l *lab) []standin.Request { return l.Requests("/api/auth/login") }
func query(l *lab) []standin.Request { return l.Requests("/api/query/") }

var _ = strings.TrimSpace
var _ = fmt.Sprint
var _ = time.Now
var _ = context.Background
var _ = assert.Equal
var _ = corev1.Secret{}
var _ = metav1.ObjectMeta{}
var _ = suite.Await
var _ = testenv.OperatorNamespace
