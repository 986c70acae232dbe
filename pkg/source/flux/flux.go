package flux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/source"
)

// Group is the API group of the kinds.
const Group = "source.toolkit.fluxcd.io"

// version is the version of the kinds: all have it since Flux 2.7.
const version = "v1"

// maxRevision and maxDigest bound the texts of the status of an object that are kept and shown.
const maxRevision, maxDigest = 512, 256

// kinds are the kinds.
var kinds = []string{"GitRepository", "OCIRepository", "Bucket", "ExternalArtifact"}

// Options are the needs of the sources.
type Options struct {
	// Kinds finds how the kinds are served.
	Kinds interface {
		Mapping(ctx context.Context, gvk schema.GroupVersionKind) (cluster.Mapping, error)
		Invalidate(group string)
	}
	// Watched lists and watches the objects, with the rights of Vidra itself; nil where nothing is watched.
	Watched dynamic.Interface
	// HTTP fetches artifacts.
	HTTP *http.Client
	// Build builds kustomizations; nil if this process does it, without bounds.
	Build Builder
	// AnyNamespace permits sources in other namespaces than the namespace of the destination.
	AnyNamespace bool
}

// start removes the leftovers once.
var start = sync.OnceFunc(removeLeftovers)

// removeLeftovers removes the artifacts of a former process with the same id, which a crash has left: in a container, each process has the same.
func removeLeftovers() {
	leftovers, _ := filepath.Glob(filepath.Join(os.TempDir(), directory+"*"))
	for _, dir := range leftovers {
		_ = os.RemoveAll(dir)
	}
}

// directory is the prefix of the names of the directories with artifacts.
var directory = fmt.Sprintf("vidra-artifact-%d-", os.Getpid())

// Sources returns the sources that are objects of Flux.
func Sources(o Options) source.Kinds {
	start()
	all := source.Kinds{}
	for _, kind := range kinds {
		all[kind] = &artifacts{options: o, kind: schema.GroupKind{Group: Group, Kind: kind}}
	}
	return all
}

// artifacts are the objects of one kind.
type artifacts struct {
	options Options

	kind schema.GroupKind
}

// Resource implements source.Source.
func (a *artifacts) Resource(ctx context.Context) (schema.GroupVersionResource, error) {
	mapping, err := a.options.Kinds.Mapping(ctx, a.kind.WithVersion(version))
	return mapping.GVR, err
}

// Requests implements source.Source.
func (a *artifacts) Requests(namespace string) source.Requests {
	return source.Requests{
		List: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			gvr, err := a.Resource(ctx)
			if err != nil {
				return nil, err
			}
			list, err := a.options.Watched.Resource(gvr).Namespace(namespace).List(ctx, opts)
			return list, a.noting(err)
		},
		Watch: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			gvr, err := a.Resource(ctx)
			if err != nil {
				return nil, err
			}
			stream, err := a.options.Watched.Resource(gvr).Namespace(namespace).Watch(ctx, opts)
			return stream, a.noting(err)
		},
		Client: a.options.Watched, Object: &unstructured.Unstructured{},
	}
}

// noting forgets how the kind is served if an error means that it has become unserved. It returns the error.
func (a *artifacts) noting(err error) error {
	if kindGone(err) {
		a.options.Kinds.Invalidate(Group)
	}
	return err
}

// kindGone reports whether an error means that the kind is unserved: it names no object.
func kindGone(err error) bool {
	return apierrors.IsNotFound(err) && cluster.IsNoResource(err)
}

// Revision returns the revision and the digest of the artifact; one that begins with "no artifact" if there is none.
func (a *artifacts) Revision(obj any) string {
	u, is := obj.(*unstructured.Unstructured)
	if !is {
		return ""
	}
	artifact, why := artifactOf(u)
	if artifact == nil {
		return why
	}
	return artifact.Revision + " " + artifact.Digest
}

// artifactOf returns the artifact of an object; nil, and why, if it has none.
func artifactOf(u *unstructured.Unstructured) (artifact *meta.Artifact, why string) {
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	read := struct {
		Artifact   *meta.Artifact     `json:"artifact"`
		Conditions []metav1.Condition `json:"conditions"`
	}{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &read); err != nil {
		return nil, "no artifact: its status cannot be read"
	}
	switch {
	case read.Artifact == nil:
	case len(read.Artifact.Revision) > maxRevision || len(read.Artifact.Digest) > maxDigest:
		return nil, fmt.Sprintf("no artifact with a revision of at most %d bytes and a digest of at most %d", maxRevision, maxDigest)
	default:
		return read.Artifact, ""
	}
	why = "no artifact yet"
	for _, condition := range read.Conditions {
		if condition.Type == meta.ReadyCondition && condition.Status != metav1.ConditionTrue {
			why += ": " + cmp.Or(condition.Message, condition.Reason)
		}
	}
	return nil, display.Truncate(why, 512)
}

// Fetch implements source.Source. It reads the object, fetches and verifies its artifact, and reads each path of it.
func (a *artifacts) Fetch(ctx context.Context, r source.Request) (*source.Content, error) {
	if !a.options.AnyNamespace && r.Key.Namespace != r.Namespace {
		return nil, source.Invalid(fmt.Errorf("it is not in the namespace of the destination, %s: move one of them, or ask the administrators to set --allow-cross-namespace-sources", cmp.Or(r.Namespace, "which is not set")))
	}
	gvr, err := a.Resource(ctx)
	if apimeta.IsNoMatchError(err) {
		return nil, source.NotServed(a.kind)
	} else if err != nil {
		return nil, err
	}
	found, err := r.Client.Resource(gvr).Namespace(r.Key.Namespace).Get(ctx, r.Key.Name, metav1.GetOptions{})
	switch {
	case kindGone(a.noting(err)):
		return nil, source.NotServed(a.kind)
	case source.IsAbsent(err):
		return nil, nil //nolint:nilnil // its absence is no error
	case err != nil:
		return nil, err
	}
	artifact, why := artifactOf(found)
	if artifact == nil {
		return nil, source.At(why, source.Absent(fmt.Errorf("it has %s", why)))
	}
	content := &source.Content{Revision: a.Revision(found), Shown: artifact.Revision, Digest: artifact.Digest}
	content.Parts, err = a.read(ctx, r, artifact)
	if err != nil {
		return nil, source.At(content.Revision, fmt.Errorf("revision %s: %w", artifact.Revision, err))
	}
	return content, nil
}

// read returns the texts of each path of an artifact.
func (a *artifacts) read(ctx context.Context, r source.Request, artifact *meta.Artifact) ([][]source.Text, error) {
	dir, err := os.MkdirTemp("", directory)
	if err != nil {
		return nil, fmt.Errorf("make a directory for the artifact: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // as the paths of a kustomization are compared
		return nil, fmt.Errorf("make a directory for the artifact: %w", err)
	}
	if err := fetch(ctx, a.options.HTTP, artifact, dir); err != nil {
		return nil, err
	}
	parts := make([][]source.Text, len(r.Parts))
	size, origins := 0, 0
	for i, part := range r.Parts {
		texts, err := readPath(ctx, a.options.Build, dir, part.Path, r.Kustomize, r.Variables)
		if err != nil {
			named := fmt.Errorf("path %s: %s", cmp.Or(part.Path, "."), strings.ReplaceAll(strings.ReplaceAll(err.Error(), dir+string(os.PathSeparator), ""), dir, "."))
			if errors.Is(err, errProcess) || ctx.Err() != nil || ofMachine(err) {
				return nil, named
			}
			return nil, source.Invalid(named)
		}
		files := map[string]bool{} // whose texts are counted
		for t := range texts {
			text := &texts[t]
			text.File, _ = strings.CutPrefix(text.Label, filePrefix)
			if size += len(text.Text); size > maxYAML {
				return nil, source.Invalid(fmt.Errorf("path %s: the paths up to here have more than %d bytes: make several VidraResources of them", cmp.Or(part.Path, "."), maxYAML))
			}
			if text.Origin != nil && !files[text.Label] {
				files[text.Label] = true
				origins += len(text.Origin.Text)
			}
			if origins > maxYAML && text.Origin != nil { // lines are not known then
				text.Origin, text.File = nil, ""
			}
			text.Label = "revision " + artifact.Revision + ", " + text.Label
		}
		parts[i] = texts
	}
	return parts, nil
}

// ofMachine reports whether an error is one of the machine of Vidra, such as a full disk, rather than of the artifact.
func ofMachine(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM},
		func(errno error) bool { return errors.Is(err, errno) })
}
