package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/source/archive"
)

const (
	// revisionLine is the line of revision, revisionName the name of its source and VidraResource, and revisionKind the kind of the source.
	revisionLine, revisionName, revisionKind = "new revision live", "revision", "GitRepository"
)

// revisionOptions are the flags of revision.
type revisionOptions struct {
	rounds, objects int
	pause, timeout  time.Duration
}

func (o *revisionOptions) flags(fs *flag.FlagSet) {
	fs.IntVar(&o.rounds, "rounds", 20, "How many revisions are published.")
	fs.IntVar(&o.objects, "objects", 100, "How many objects the artifact has, each in a file of a kustomization.")
	fs.DurationVar(&o.pause, "pause", 500*time.Millisecond, "How long to wait between two revisions.")
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "How long a revision may take.")
}

func (o *revisionOptions) check() error {
	return errors.Join(atLeastOne("rounds", o.rounds), atLeastOne("objects", o.objects))
}

func (o *revisionOptions) setup() setup { return setup{args: []string{"--artifact-hosts=127.0.0.1"}} }

// measure measures the time from the status with a new revision of a source until the changed object is live. The floor is the same write of
// the status of another source, and one PATCH of the object. One watch shows both.
func (o *revisionOptions) measure(ctx context.Context, l *lab) (*report, error) {
	served := &artifactServer{}
	server := httptest.NewServer(served)
	defer server.Close()
	publish := func(ctx context.Context, namespace, version string) error {
		return o.publish(ctx, l, served, server.URL, namespace, version)
	}
	if err := bounded(ctx, o.timeout, func(ctx context.Context) error { return o.prepare(ctx, l, publish) }); err != nil {
		return nil, err
	}
	r := &report{Settings: fmt.Sprintf("%d rounds, %d objects", o.rounds, o.objects), Environment: l.environment}
	err := l.measureLive(ctx, r, liveRounds{
		line: revisionLine, unit: "revision", rounds: o.rounds, pause: o.pause, timeout: o.timeout,
		name: func(int) string { return revisionName },
		floor: func(ctx context.Context, _ int, version string) error {
			if err := publish(ctx, floorNamespace, version); err != nil {
				return err
			}
			return l.applyVersion(ctx, revisionName, version)
		},
		vidra: func(ctx context.Context, _ int, version string) error { return publish(ctx, vidraNamespace, version) },
	})
	r.Notes = append(r.Notes, "Between the status of the source and the object are the download and the check of the artifact, the build of the kustomization in a process of its own, and the comparison of all objects.")
	return r, err
}

// prepare makes the sources of both sides, and a VidraResource that is ready with the first revision of one.
func (o *revisionOptions) prepare(ctx context.Context, l *lab, publish func(ctx context.Context, namespace, version string) error) error {
	if err := l.client.Create(ctx, testenv.FluxCRD(revisionKind)); err != nil {
		return err
	}
	for _, namespace := range []string{floorNamespace, vidraNamespace} {
		for err := l.client.Create(ctx, revisionSource(namespace)); err != nil; err = l.client.Create(ctx, revisionSource(namespace)) {
			if err := errors.Join(ctx.Err(), sleep(ctx, 100*time.Millisecond)); err != nil { // the kind is not served yet
				return err
			}
		}
		if err := publish(ctx, namespace, firstVersion); err != nil {
			return err
		}
	}
	vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: revisionName}}
	vr.Spec.Destination.Namespace = vidraNamespace
	vr.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: revisionKind, Name: revisionName, Path: "deploy"}}
	if err := l.awaitResource(ctx, vr, o.objects); err != nil {
		return err
	}
	return l.awaitQuiet(ctx)
}

// publish makes a version the artifact of a source.
func (o *revisionOptions) publish(ctx context.Context, l *lab, served *artifactServer, url, namespace, version string) error {
	files, list := map[string]string{}, "resources:\n"
	for i := range o.objects {
		name, value := revisionName, version
		if i > 0 {
			name, value = fmt.Sprintf("%s-%d", revisionName, i), firstVersion
		}
		files["deploy/"+name+".yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  version: %q\n", name, value)
		list += fmt.Sprintf("- %s.yaml\n", name)
	}
	files["deploy/kustomization.yaml"] = list
	packed, err := archive.Pack(files)
	if err != nil {
		return err
	}
	served.content.Store(&packed.Content)
	status, err := json.Marshal(map[string]any{"status": map[string]any{"artifact": map[string]any{
		"url": url + "/" + version + ".tar.gz", "path": version + ".tar.gz", "revision": "main@sha1:" + version, "digest": "sha256:" + packed.Digest,
		"size": len(packed.Content), "lastUpdateTime": time.Now().UTC().Format(time.RFC3339),
	}}})
	if err != nil {
		return err
	}
	return l.client.Status().Patch(ctx, revisionSource(namespace), client.RawPatch(types.MergePatchType, status))
}

// revisionSource returns the source of a namespace.
func revisionSource(namespace string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: revisionKind})
	u.SetNamespace(namespace)
	u.SetName(revisionName)
	return u
}

// artifactServer serves the artifact of the last revision.
type artifactServer struct{ content atomic.Pointer[[]byte] }

// ServeHTTP implements http.Handler.
func (s *artifactServer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write(*s.content.Load())
}
