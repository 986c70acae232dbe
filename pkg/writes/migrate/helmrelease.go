package migrate

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

const (
	helmReleaseGroup = "helm.toolkit.fluxcd.io"
	helmReleaseKind  = "HelmRelease"
	// fluxRelease and fluxReleaseNamespace are the labels of an object that a HelmRelease of Flux installed, with the field manager helmController.
	fluxRelease, fluxReleaseNamespace = helmReleaseGroup + "/name", helmReleaseGroup + "/namespace"
	helmController                    = "helm-controller"
)

// helmRelease is the identity of a HelmRelease of Flux. The zero value is none.
type helmRelease struct{ namespace, name string }

// helmReleaseOf returns the HelmRelease that the labels of an object name.
func helmReleaseOf(u *unstructured.Unstructured) helmRelease {
	return helmRelease{u.GetLabels()[fluxReleaseNamespace], u.GetLabels()[fluxRelease]}
}

func (r helmRelease) String() string { return display.Name(helmReleaseKind, r.namespace, r.name) }

// suspend is the command that suspends it.
func (r helmRelease) suspend() string {
	return fmt.Sprintf("`flux -n %s suspend helmrelease %s`", r.namespace, r.name)
}

// helmRelease reads a HelmRelease in the version that the cluster prefers; nil if it is absent.
func (c *Client) helmRelease(ctx context.Context, r helmRelease) (*unstructured.Unstructured, error) {
	return c.read(ctx, helmReleaseGroup+"/", helmReleaseKind, r.namespace, r.name)
}

// judge returns the finding about a HelmRelease that objects of a release are labelled with. An active one installs the release again.
func (r helmRelease) judge(u *unstructured.Unstructured, err error) (Severity, string) {
	switch {
	case err != nil:
		return Refused, fmt.Sprintf("%s of Flux may install the release again, and it is unknown whether it is suspended: %s", r, err)
	case u == nil:
		return Acceptable, fmt.Sprintf("the objects have the labels of %s of Flux, which does not exist here: if it is in another cluster, suspend it there first, as it installs the release again", r)
	case u.GetDeletionTimestamp() != nil:
		return Refused, fmt.Sprintf("%s of Flux is being deleted, which may uninstall the release: wait until it is gone", r)
	}
	if suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); !suspended {
		return Refused, fmt.Sprintf("%s of Flux installs the release again: suspend it first, with %s", r, r.suspend())
	}
	return Note, fmt.Sprintf("%s of Flux has to stay suspended, as it installs the release again otherwise. To end the migration, remove it from its repository and delete it: while it is suspended, that uninstalls nothing", r)
}

// helmReleaseHint describes the way of a release that a HelmRelease of a name installed; empty if there is no such HelmRelease.
func (c *Client) helmReleaseHint(ctx context.Context, r helmRelease) string {
	u, err := c.helmRelease(ctx, r)
	if err != nil || u == nil {
		return ""
	}
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(u.Object, fields...)
		return value
	}
	if remote, found, _ := unstructured.NestedMap(u.Object, "spec", "kubeConfig"); found && remote != nil {
		return fmt.Sprintf("%s exists, and installs its release in another cluster (spec.kubeConfig): suspend it with %s, and use `%s` there",
			r, r.suspend(), c.program.Hint("migrate", "helm", "RELEASE"))
	}
	name := cmp.Or(text("spec", "releaseName"), r.name)
	if target := text("spec", "targetNamespace"); target != "" && text("spec", "releaseName") == "" {
		name = target + "-" + r.name
	}
	history, _, _ := unstructured.NestedSlice(u.Object, "status", "history")
	for _, item := range history[:min(1, len(history))] { // the newest one; a long name is shortened
		one, _ := item.(map[string]any)
		recorded, _ := one["name"].(string)
		name = cmp.Or(recorded, name)
	}
	storage := cmp.Or(text("status", "storageNamespace"), text("spec", "storageNamespace"), r.namespace)
	return fmt.Sprintf("%s exists: suspend it with %s, and move its release with `%s`", r, r.suspend(), c.program.Hint("migrate", "helm", insight.Quoted(name), "-n", insight.Quoted(storage)))
}
