package e2e

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// kustomizations returns the folders below config that hold a kustomization. Components are none:
// they need one, and package e2e/chart tests them.
func kustomizations(t *testing.T) map[string]string {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	found := map[string]string{}
	err = filepath.WalkDir(filepath.Join(root, "config"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(path) == "kustomization.yaml" && filepath.Base(filepath.Dir(filepath.Dir(path))) != "components" {
			name, relErr := filepath.Rel(root, filepath.Dir(path))
			require.NoError(t, relErr)
			found[name] = filepath.Dir(path)
		}
		return err
	})
	require.NoError(t, err)
	return found
}

func TestKustomizationsAreAccepted(t *testing.T) {
	found := kustomizations(t)
	for _, want := range []string{"crd", "rbac", "manager", "default", "samples"} {
		require.Contains(t, found, filepath.Join("config", want))
	}
	for name, dir := range found {
		t.Run(name, func(t *testing.T) {
			objs, err := testenv.Render(dir)
			require.NoError(t, err, "it stands alone")
			require.NotEmpty(t, objs)
			if name == filepath.Join("config", "policies", "stamp") && !testenv.AtLeast(36) {
				t.Skip("MutatingAdmissionPolicy v1 needs Kubernetes 1.36")
			}
			for _, obj := range objs {
				if obj.GetKind() == "Namespace" { // a dry run makes none for the others
					require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), obj.DeepCopy())))
				}
				if in := obj.GetNamespace(); in != "" { // config/namespaced is for those that exist
					namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in}}
					require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), namespace)))
				}
			}
			require.NoError(t, testenv.Apply(t.Context(), env.Config, objs, client.DryRunAll))
		})
	}
}

func TestDefaultHoldsAllParts(t *testing.T) {
	type ref struct{ kind, name string }
	refs := func(dir string) []ref {
		objs, err := testenv.Render(kustomizations(t)[filepath.Join("config", dir)])
		require.NoError(t, err)
		var all []ref
		for _, o := range objs {
			all = append(all, ref{o.GetKind(), o.GetName()})
		}
		return all
	}
	all := refs("default")
	for _, part := range []string{"crd", "rbac", "manager"} {
		require.Subset(t, all, refs(part))
	}
	require.Contains(t, all, ref{"Namespace", testenv.OperatorNamespace})
	require.Contains(t, all, ref{"ServiceAccount", testenv.OperatorServiceAccount})
}

func TestRolesSpellOutTheirVerbs(t *testing.T) {
	objs, err := testenv.Render(kustomizations(t)[filepath.Join("config", "default")])
	require.NoError(t, err)
	roles := 0
	for _, o := range objs {
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
			continue
		}
		roles++
		role := &rbacv1.ClusterRole{} // a Role has the same rules
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role))
		require.NotEmpty(t, role.Rules)
		for _, rule := range role.Rules {
			require.NotContains(t, rule.Verbs, rbacv1.VerbAll, "%s %s", o.GetKind(), o.GetName())
			if slices.Contains(rule.Resources, rbacv1.ResourceAll) {
				require.Equal(t, "vidra-managed-kinds", o.GetName(), "all kinds stand in one role, which a team can narrow")
			}
		}
	}
	require.Equal(t, 14, roles)
}

func TestOperatorPodIsAdmitted(t *testing.T) {
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		pods := &corev1.PodList{}
		require.NoError(t, admin.List(context.Background(), pods, client.InNamespace(testenv.OperatorNamespace)))
		require.Len(t, pods.Items, 1)
		require.Equal(t, testenv.OperatorServiceAccount, pods.Items[0].Spec.ServiceAccountName)
	}, 30*time.Second, 100*time.Millisecond, "the namespace enforces the Pod Security level restricted")

	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: "vidra-operator"}
	require.NoError(t, admin.Get(t.Context(), key, d))
	operator := d.Spec.Template.Spec.Containers[0]
	require.True(t, *operator.SecurityContext.ReadOnlyRootFilesystem)
	require.Equal(t, "/healthz", operator.LivenessProbe.HTTPGet.Path)
	require.Equal(t, "/readyz", operator.ReadinessProbe.HTTPGet.Path)
}

func TestRightsOfTheOperator(t *testing.T) {
	tests := map[string]struct {
		reason    string
		verb      string
		group     string
		resource  string
		sub       string
		namespace string
		want      bool
	}{
		"watches its own kind": {
			reason: "or it has nothing to do", verb: "watch", group: "infrahub.operators.com", resource: "vidraresources", want: true,
		},
		"keeps its finalizer": {
			reason: "a finalizer is in metadata", verb: "patch", group: "infrahub.operators.com", resource: "vidraresources", want: true,
		},
		"writes status": {
			reason: "status is a subresource", verb: "patch", group: "infrahub.operators.com", resource: "vidraresources", sub: "status", want: true,
		},
		"writes events": {
			reason: "of events.k8s.io", verb: "create", group: "events.k8s.io", resource: "events", namespace: "default", want: true,
		},
		"elects a leader": {
			reason: "with a lease", verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: testenv.OperatorNamespace, want: true,
		},
		"leaves other leases alone": {
			reason: "update is for its own namespace", verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: "kube-system",
		},
		"reviews tokens": {
			reason: "of who reads the metrics", verb: "create", group: "authentication.k8s.io", resource: "tokenreviews", want: true,
		},
		"applies objects": {
			reason: "server-side apply is a patch", verb: "patch", group: "apps", resource: "deployments", namespace: "web", want: true,
		},
		"applies kinds that are not installed yet": {
			reason: "a CRD may come tomorrow", verb: "create", group: "example.com", resource: "things", want: true,
		},
		"does not escalate": {
			reason: "what it may not do itself it cannot grant", verb: "escalate", group: "rbac.authorization.k8s.io", resource: "clusterroles",
		},
		"does not impersonate": {
			reason: "it has the rights of no other user", verb: "impersonate", resource: "users",
		},
		"deletes one by one": {
			reason: "pruning never deletes by selector", verb: "deletecollection", resource: "configmaps", namespace: "web",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + testenv.OperatorNamespace + ":" + testenv.OperatorServiceAccount,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: tt.verb, Group: tt.group, Resource: tt.resource, Subresource: tt.sub, Namespace: tt.namespace,
				},
			}}
			require.NoError(t, admin.Create(t.Context(), review))
			require.Equal(t, tt.want, review.Status.Allowed, "%s: %s", tt.reason, review.Status.Reason)
		})
	}
}

func TestRightsOfPeople(t *testing.T) {
	tests := map[string]struct {
		reason string
		role   string
		may    []string
		mayNot []string
	}{
		"viewer": {
			reason: "who may look may not write", role: "vidra-vidraresource-viewer",
			may: []string{"get", "list", "watch"}, mayNot: []string{"create", "patch", "delete"},
		},
		"editor": {
			reason: "who may write may look", role: "vidra-vidraresource-editor",
			may: []string{"get", "list", "watch", "create", "update", "patch", "delete"}, mayNot: []string{"deletecollection"},
		},
		"edit of Kubernetes": {
			reason: "who may write VidraResources has Vidra's rights, which an editor of namespaces must not have", role: "edit",
			mayNot: []string{"get", "create", "patch", "delete"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			user := unique(t)
			require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: user},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: tt.role},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			}))
			allowed := func(c require.TestingT, group, resource, verb string) bool {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User:               user,
					ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource},
				}}
				require.NoError(c, admin.Create(context.Background(), review))
				return review.Status.Allowed
			}
			if tt.role == "edit" {
				await(t, func(c *assert.CollectT) {
					require.True(c, allowed(c, "", "configmaps", "create"), "the binding counts")
				})
			}
			for _, verb := range tt.may {
				await(t, func(c *assert.CollectT) {
					require.True(c, allowed(c, v1alpha1.GroupVersion.Group, "vidraresources", verb), verb)
				})
			}
			for _, verb := range tt.mayNot {
				require.False(t, allowed(t, v1alpha1.GroupVersion.Group, "vidraresources", verb), "%s: %s", tt.reason, verb)
			}
		})
	}
}
