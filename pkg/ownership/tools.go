package ownership

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Tools are patterns, in the syntax of [path.Match], of the field managers of interactive tools: programs that users
// edit objects with, and that write only then.
type Tools []string

// DefaultTools are the known tools. kubectl and its plugins name themselves kubectl-edit, kubectl-patch,
// kubectl-client-side-apply, kubectl-label, kubectl-rollout and so on, oc does the same, k9s and the Kubernetes Dashboard have
// names of their own, as have the consoles of Google Cloud and Alibaba Cloud, and requests of a browser through a proxy, as from the
// console of OpenShift, are called Mozilla. A
// client that sets no field manager has its User-Agent up to the first slash: Headlamp is "Headlamp 0.30.0 (linux" then, and a
// program of client-go its executable, such as lfk. Lens and its successors write as node-fetch, the HTTP client of Node.js; a
// controller written for Node.js should set a field manager. curl and the clients of API developers are used by hand. Names
// under which programs write, too, are left out: rancher, portainer, argocd-server (which also fills its own Secrets), OpenAPI-Generator (the
// clients of Python), fabric8-kubernetes-client, Kubernetes Java Client, HashiCorp and Terraform, Go-http-client, unknown.
var DefaultTools = Tools{
	"kubectl*", "oc", "k9s", "Mozilla", "dashboard", "kubernetes-dashboard*", "headlamp*", "Headlamp*", "Lens", "OpenLens", "freelens", "Freelens", "node-fetch",
	"GoogleCloudConsole", "ACK-Console*", "octant", "kubenav", "kubewall", "lfk*", "podman-desktop", "monokle", "Monokle", "aptakube", "Aptakube", "seabird",
	"curl", "Wget", "xh", "PostmanRuntime", "insomnia", "bruno-runtime", "HTTPie",
}

// controllers are names under which controllers write: no pattern may match one. manager is the default name of controllers
// that kubebuilder made.
var controllers = []string{
	"kube-controller-manager", "kube-scheduler", "kube-apiserver", "kubelet", "cloud-controller-manager", "manager", "controller", "operator",
	"cainjector", "cert-manager-cainjector", "argocd-controller", "kustomize-controller", "helm-controller", "vpa-updater", "istio-operator",
	"cluster-autoscaler", "before-first-apply", "vidra-operator", "rancher", "argocd-server", "OpenAPI-Generator",
	"Kubernetes Java Client",
}

// Validate fails if a pattern is malformed, or matches the name of a controller.
func (t Tools) Validate() error {
	for _, pattern := range t {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("%q is no pattern: use names, with * for any text", pattern)
		}
		for _, name := range controllers {
			if matched, _ := path.Match(pattern, name); matched {
				return fmt.Errorf("%q matches %s, under which programs write by themselves: name the users' tools more exactly", pattern, name)
			}
		}
	}
	return nil
}

// Has reports whether a field manager is one of the tools. On Windows, the name of an executable ends in .exe.
func (t Tools) Has(manager string) bool {
	manager = strings.TrimSuffix(manager, ".exe")
	return slices.ContainsFunc(t, func(pattern string) bool {
		matched, err := path.Match(pattern, manager)
		return err == nil && matched
	})
}

// keptAnnotations are annotations of tools that never count as an addition: the annotations of kubectl rollout restart, the
// cause of a rollout, and the last applied configuration of kubectl apply.
var keptAnnotations = []string{
	"kubectl.kubernetes.io/restartedAt", "kubectl.kubernetes.io/last-applied-configuration", "kubernetes.io/change-cause",
}

// keptDomain is the domain of the annotations and labels that users set for Vidra: additions exclude
// them, too.
const keptDomain = "infrahub.operators.com/"

// KeptAddition reports whether a write of a tool at a path, given by names, is never counted as an addition: the status,
// metadata except labels and annotations, and annotations by which a user requests something.
func KeptAddition(names []string) bool {
	switch n := len(names); {
	case n == 0:
		return false
	case names[0] == "status":
		return true
	case names[0] == "metadata" && n > 1 && names[1] != "labels" && names[1] != "annotations":
		return true
	case n < 2 || names[n-2] != "annotations" && names[n-2] != "labels":
		return false
	default:
		domain, _, _ := strings.Cut(names[n-1], "/")
		return slices.Contains(keptAnnotations, names[n-1]) || strings.HasSuffix(domain+"/", keptDomain)
	}
}

// Digest is a digest of the additions of the tools to an object, with their values; found
// reports whether there are any. An addition is a field that a tool owns, that manager does not
// apply, and that is not a [KeptAddition].
func (t Tools) Digest(obj *unstructured.Unstructured, manager string) (digest Digest, found bool) {
	var ours fieldsV1
	for r := range records(obj) {
		name := r.text("manager")
		if r.text("subresource") != "" || name == manager || !t.Has(name) {
			continue
		}
		if ours == nil {
			ours = applied(obj, manager)
		}
		e := encoders.Get().(*encoder)
		added := e.additions(r.fields(), ours, obj.Object)
		for i, b := range e.digest() {
			if added { // the order of the entries does not count
				digest[i] ^= b
			}
		}
		found = found || added
	}
	return digest, found
}

// additions encodes the leaves of fields that ours lacks.
func (e *encoder) additions(fields, ours fieldsV1, live any) (added bool) {
	n := node{live: live}
	first, end := e.push(fields)
	for i := first; i < end; i++ {
		key := e.keys[i]
		_, owned := ours[key]
		below, _ := fields[key].(map[string]any)
		if key == "." {
			if !owned && len(ours) == 0 { // that it is there at all
				e.strings('P', e.at.path)
				added = true
			}
			continue
		}
		name, isField := strings.CutPrefix(key, "f:")
		e.at.path = append(e.at.path, name)
		child, there := n.find(key)
		switch {
		case !there, isField && KeptAddition(e.at.path):
		case len(below) > 0:
			oursBelow, _ := ours[key].(map[string]any)
			whole := e.at.path
			e.at.path = shortPath(whole)
			added = e.additions(below, oursBelow, child) || added
			e.at.path = whole
		case !owned:
			e.strings('p', e.at.path)
			e.value(child)
			added = true
		}
		e.at.path = e.at.path[:len(e.at.path)-1]
	}
	e.pop(first)
	return added
}

// shortPath returns a path of more than maxPath bytes as its hash, with the names that KeptAddition needs: each field below repeats it.
func shortPath(path []string) []string {
	size := 0
	for _, name := range path {
		size += len(name) + 1
	}
	if size <= maxPath {
		return path
	}
	hash := encoders.Get().(*encoder)
	hash.strings('p', path)
	digest := hash.digest()
	brief := func(name string) string { return name[:min(len(name), maxValue)] }
	return []string{brief(path[0]), brief(path[min(1, len(path)-1)]), string(digest[:]), brief(path[len(path)-1])}
}

// strings encodes a list of strings.
func (e *encoder) strings(tag byte, all []string) {
	e.tag(tag)
	e.integer(int64(len(all)))
	for _, s := range all {
		e.string('s', s)
	}
}
