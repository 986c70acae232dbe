package restricted

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// operatorMay asks whether Vidra itself has a right.
func operatorMay(t require.TestingT, verb, group, resource, namespace string) bool {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               suite.OperatorUser,
		Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + testenv.OperatorNamespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: namespace},
	}}
	require.NoError(t, admin.Create(context.Background(), review))
	return review.Status.Allowed
}

// restartWith ends the operator and starts it with the flags of a Deployment.
func restartWith(t *testing.T, flags []string) {
	t.Helper()
	require.NoError(t, operator.Stop(time.Minute))
	binary, err := suite.BuildOperator(context.Background())
	require.NoError(t, err)
	operator, err = env.StartOperator(context.Background(), testenv.OperatorOptions{
		Binary: binary, Args: flags, Env: []string{"POD_NAMESPACE=" + testenv.OperatorNamespace},
	})
	require.NoError(t, err)
}

// TestInfrahub: config/restricted does not sync InfrahubSyncs, and config/components/infrahub turns them on. Then credentials are
// read in the namespace of the operator alone, the objects are applied as the account, and the author needs the right to it.
func TestInfrahub(t *testing.T) {
	group := v1alpha1.GroupVersion.Group
	mine := newTeam(t, "mine")
	bind(t, "", "ClusterRole", "vidra-infrahubsync-editor", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: mine.user})
	artifacts := standin.New(standin.Options{})
	server := suite.Serve(t, artifacts)
	artifacts.Set(standin.Artifact{ID: mine.namespace + "-page", Name: "page", Branch: "main", Content: configMap("page", "hello")})
	credentials := func(namespace string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "infrahub", Labels: map[string]string{v1alpha1.InfrahubURLLabel: "127.0.0.1"}},
			StringData: map[string]string{"username": "admin", "password": "infrahub"},
		}
	}
	require.NoError(t, admin.Create(t.Context(), credentials(mine.namespace)))
	infrahubSync := func(account string) *v1alpha1.InfrahubSync {
		is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: mine.namespace}}
		is.Spec.Source = v1alpha1.InfrahubSyncSource{InfrahubAPIURL: server.URL, ArtifactName: "page"}
		is.Spec.Destination = v1alpha1.InfrahubSyncDestination{Namespace: mine.namespace, ReconcileOnEvents: true}
		is.Spec.ServiceAccountName = account
		return is
	}
	other := newOutsider(t, "other")
	bind(t, "", "ClusterRole", "vidra-infrahubsync-editor", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: other.user})
	await(t, func(c *assert.CollectT) {
		requireForbidden(c, other.person.Create(t.Context(), infrahubSync(account), client.DryRunAll), "InfrahubSync", "right to impersonate")
	})
	await(t, func(c *assert.CollectT) {
		requireForbidden(c, mine.person.Create(t.Context(), infrahubSync(""), client.DryRunAll), "spec.serviceAccountName is missing")
	})
	is := infrahubSync(account)
	await(t, func(c *assert.CollectT) { require.NoError(c, mine.person.Create(t.Context(), is)) })
	t.Cleanup(func() { _ = admin.Delete(context.Background(), is) })
	confirmation := fmt.Sprintf(`{"metadata":{"annotations":{%q:"x"}}}`, v1alpha1.ConfirmRemovalAnnotation)
	requireForbidden(t, patch(other.person, is.DeepCopy(), "%s", confirmation), "InfrahubSync", "right to impersonate")
	require.NoError(t, patch(mine.person, is.DeepCopy(), "%s", confirmation))
	require.NoError(t, patch(other.person, is.DeepCopy(), `{"metadata":{"annotations":{%q:"now"}}}`, v1alpha1.SyncRequestedAtAnnotation), "a query deletes nothing by itself")

	// It is off.
	mark := env.AuditMark()
	v := mine.create(t, mine.resource("before"))
	awaitReady(t, v.Name)
	require.Empty(t, cluster.ByOperator(t, mark).Only(func(r suite.Request) bool { return r.Resource == "infrahubsyncs" }))
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(is), is))
	require.Empty(t, is.Status.Conditions)
	await(t, func(c *assert.CollectT) { // a binding counts a moment after it is changed
		for resource, verbs := range map[string][]string{"infrahubsyncs": {"patch"}, "infrahubsyncs/status": {"patch"}, "vidraresources": {"create", "delete"}} {
			for _, verb := range verbs {
				require.False(c, operatorMay(c, verb, group, resource, ""), "%s %s", verb, resource)
			}
		}
		require.False(c, operatorMay(c, "patch", "", "secrets", testenv.OperatorNamespace))
	})

	// It is on.
	root, err := testenv.Root()
	require.NoError(t, err)
	dir := t.TempDir()
	path := func(folder string) string {
		relative, err := filepath.Rel(dir, filepath.Join(root, "config", folder))
		require.NoError(t, err)
		return relative
	}
	text := fmt.Sprintf("resources: [%s]\ncomponents: [%s]\n", path("restricted"), path(filepath.Join("components", "infrahub")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	objs, err := testenv.Render(dir)
	require.NoError(t, err)
	require.NoError(t, testenv.Apply(t.Context(), env.Config, objs))
	flags, err := suite.FlagsOf(objs)
	require.NoError(t, err)
	t.Cleanup(func() { // as for the other tests
		objs, err := env.InstallFrom(context.Background(), "restricted")
		require.NoError(t, err)
		flags, err := suite.FlagsOf(objs)
		require.NoError(t, err)
		restartWith(t, flags)
	})
	mark = env.AuditMark()
	restartWith(t, flags)
	awaitReason := func(reason string, parts ...string) {
		t.Helper()
		await(t, func(c *assert.CollectT) {
			require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(is), is))
			ready := meta.FindStatusCondition(is.Status.Conditions, v1alpha1.ConditionReady)
			require.NotNil(c, ready)
			require.Equal(c, reason, ready.Reason, ready.Message)
			for _, part := range parts {
				require.Contains(c, ready.Message, part)
			}
		})
	}
	awaitReason(v1alpha1.SyncReasonCredentialsMissing, "no Secret in namespace "+testenv.OperatorNamespace)
	require.Empty(t, artifacts.Requests("/"), "those in another namespace do not count")
	own := credentials(testenv.OperatorNamespace)
	require.NoError(t, admin.Create(t.Context(), own))
	t.Cleanup(func() { require.NoError(t, admin.Delete(context.Background(), own)) })
	awaitReason(v1alpha1.SyncReasonSynced)
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello", mine.says(c, "page")) })
	sent := cluster.ByOperator(t, mark)
	read := sent.Only(func(r suite.Request) bool { return strings.Contains(r.RequestURI, v1alpha1.InfrahubURLLabel) })
	require.NotEmpty(t, read)
	for _, r := range read {
		require.Equal(t, testenv.OperatorNamespace, r.Namespace, r.RequestURI)
	}
	for _, r := range sent.On("configmaps", mine.namespace, "page").Writes() {
		require.Equal(t, suite.UserOf(mine.namespace, account), r.As)
	}

	// An artifact with the name of a VidraResource of another team does not take it over.
	theirs := newTeam(t, "theirs")
	taken := theirs.create(t, theirs.resource("page"))
	awaitReady(t, taken.Name)
	artifacts.Set(standin.Artifact{ID: taken.Name, Name: "page", Branch: "main", Content: configMap("page", "mine")})
	require.NoError(t, patch(mine.person, is, `{"metadata":{"annotations":{%q:"now"}}}`, v1alpha1.SyncRequestedAtAnnotation))
	await(t, func(c *assert.CollectT) {
		require.Equal(t, theirs.namespace, getVidraResource(t, taken.Name).Spec.Destination.Namespace)
		require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(is), is))
		require.Len(c, is.Status.Problems, 1)
		require.Equal(c, v1alpha1.ArtifactConflict, is.Status.Problems[0].Reason)
		require.Contains(c, is.Status.Problems[0].Message, theirs.namespace+"/"+account)
	})
	require.Equal(t, "hello", theirs.says(t, "page"))

	for _, namespace := range []string{mine.namespace, "default", ""} {
		require.False(t, operatorMay(t, "create", "", "secrets", namespace), namespace)
		require.False(t, operatorMay(t, "get", "", "secrets", namespace), namespace)
	}
	bindings := &rbacv1.ClusterRoleBinding{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "vidra-infrahub-credentials"}, bindings))
	require.Empty(t, bindings.Subjects)
	require.NoError(t, mine.person.Delete(t.Context(), is))
}
