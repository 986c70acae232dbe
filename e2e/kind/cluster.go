package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	"sigs.k8s.io/kind/pkg/cmd"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

const (
	// clusterName is the name of the kind cluster. One of that name is from an earlier run.
	clusterName = "vidra-e2e"
	// nodesReady bounds the wait until the nodes are ready.
	nodesReady = 4 * time.Minute
	// The folders of the audit policy and of the audit log, on the control-plane node and in the
	// Pod of the API server.
	auditConfigDir, auditLogDir = "/etc/kubernetes/audit", "/var/log/kubernetes/audit"
)

// kindCluster is a kind cluster that this process made.
type kindCluster struct {
	provider   *cluster.Provider
	kubeconfig string
	auditLog   string
	say        func(format string, args ...any)
}

// newCluster makes a kind cluster with an audit log, and loads the image of the operator. The
// cluster is to be deleted even if there is an error.
func (r *run) newCluster() (*kindCluster, error) {
	k := &kindCluster{
		provider:   cluster.NewProvider(cluster.ProviderWithLogger(cmd.NewLogger()), cluster.ProviderWithDocker()),
		kubeconfig: filepath.Join(r.dir, "kubeconfig"),
		auditLog:   filepath.Join(r.dir, "audit", "audit.log"),
		say:        r.say,
	}
	if err := r.writeAuditFiles(k.auditLog); err != nil {
		return k, err
	}
	if err := k.delete(); err != nil {
		return k, err
	}
	options := []cluster.CreateOption{
		cluster.CreateWithV1Alpha4Config(r.clusterConfig()), cluster.CreateWithKubeconfigPath(k.kubeconfig),
		cluster.CreateWithWaitForReady(nodesReady), cluster.CreateWithDisplayUsage(false), cluster.CreateWithDisplaySalutation(false),
		cluster.CreateWithRetain(true), // for its logs
	}
	if r.nodeImage != "" {
		options = append(options, cluster.CreateWithNodeImage(r.nodeImage))
	}
	if err := k.provider.Create(clusterName, options...); err != nil {
		return k, fmt.Errorf("making the kind cluster %s: %w", clusterName, err)
	}
	r.say("the kind cluster %s is ready", clusterName)
	return k, k.load(filepath.Join(r.root, "bin", "image"), r.image)
}

// requireDocker returns an error if no Docker engine runs.
func requireDocker(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput()
	if err != nil {
		return fmt.Errorf("asking the Docker engine for its version: %w: %s: start one, or set DOCKER_HOST", err, out)
	}
	return nil
}

// writeAuditFiles writes the audit policy, and an empty audit log that any user of this machine can read:
// the API server appends to it as root.
func (r *run) writeAuditFiles(log string) error {
	policy := filepath.Join(r.dir, "policy", "policy.yaml")
	for file, text := range map[string]string{log: "", policy: testenv.AuditPolicy} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// clusterConfig describes the cluster: its nodes, and an API server that writes an audit log.
func (r *run) clusterConfig() *v1alpha4.Cluster {
	config := &v1alpha4.Cluster{
		Nodes: []v1alpha4.Node{{Role: v1alpha4.ControlPlaneRole, ExtraMounts: []v1alpha4.Mount{
			{HostPath: filepath.Join(r.dir, "policy"), ContainerPath: auditConfigDir, Readonly: true},
			{HostPath: filepath.Join(r.dir, "audit"), ContainerPath: auditLogDir},
		}}},
		// kubeadm takes arguments in two forms. kind applies the patch of the version that it uses. The
		// control-plane node runs Pods, too, so that those of a drained node can move there.
		KubeadmConfigPatches: []string{
			controlPlane("v1beta4"), controlPlane("v1beta3"), "kind: InitConfiguration\nnodeRegistration: {taints: []}\n",
		},
	}
	for range r.workers {
		config.Nodes = append(config.Nodes, v1alpha4.Node{Role: v1alpha4.WorkerRole})
	}
	v1alpha4.SetDefaultsCluster(config)
	return config
}

// arguments are those of the parts of the control plane, by their names for kubeadm. A request that
// cannot be noted in the audit log fails; the log is never rotated. Many objects come and go in a short time.
// The only controller manager and the only scheduler need no leader, and no renewal in time.
var arguments = []struct{ part, name, value string }{
	{"apiServer", "audit-policy-file", auditConfigDir + "/policy.yaml"},
	{"apiServer", "audit-log-path", auditLogDir + "/audit.log"},
	{"apiServer", "audit-log-mode", "blocking-strict"},
	{"apiServer", "audit-log-maxsize", "1048576"},
	{"apiServer", "enable-admission-plugins", "NodeRestriction,PodNodeSelector"}, // see MakeNamespace of package suite
	{"controllerManager", "kube-api-qps", "200"},
	{"controllerManager", "kube-api-burst", "400"},
	{"controllerManager", "leader-elect", "false"},
	{"scheduler", "leader-elect", "false"},
}

// controlPlane is a part of the configuration of kubeadm, in a version of its API.
func controlPlane(version string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: kubeadm.k8s.io/%s\nkind: ClusterConfiguration\nmetadata: {name: config}\n", version)
	part := ""
	for _, argument := range arguments {
		if argument.part != part {
			part = argument.part
			fmt.Fprintf(&text, "%s:\n", part)
			if part == "apiServer" {
				fmt.Fprintf(&text, `  extraVolumes:
  - {name: audit-policy, hostPath: %s, mountPath: %[1]s, readOnly: true, pathType: Directory}
  - {name: audit-log, hostPath: %s, mountPath: %[2]s, readOnly: false, pathType: Directory}
`, auditConfigDir, auditLogDir)
			}
			text.WriteString("  extraArgs:\n")
		}
		if version == "v1beta3" {
			fmt.Fprintf(&text, "    %s: %q\n", argument.name, argument.value)
		} else {
			fmt.Fprintf(&text, "  - {name: %s, value: %q}\n", argument.name, argument.value)
		}
	}
	return text.String()
}

// load loads the image of an OCI layout into each node, under a name.
func (k *kindCluster) load(folder, imageName string) error {
	tag, err := name.NewTag(imageName)
	if err != nil {
		return err
	}
	image, err := imageOf(folder)
	if err != nil {
		return fmt.Errorf("reading the image in %s: %w: run `make image` first", folder, err)
	}
	nodes, err := k.provider.ListInternalNodes(clusterName)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		archive, w := io.Pipe()
		go func() { _ = w.CloseWithError(tarball.Write(tag, image, w)) }()
		if err := nodeutils.LoadImageArchive(node, archive); err != nil {
			return fmt.Errorf("loading the image %s into node %s: %w", imageName, node, err)
		}
	}
	k.say("the image %s is loaded", imageName)
	return nil
}

// imageOf returns the image for this machine's platform from the OCI layout in a folder.
func imageOf(folder string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, err
	}
	manifests, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifests.Manifests) == 1 && manifests.Manifests[0].MediaType.IsIndex() {
		if index, err = index.ImageIndex(manifests.Manifests[0].Digest); err != nil {
			return nil, err
		}
		if manifests, err = index.IndexManifest(); err != nil {
			return nil, err
		}
	}
	for _, one := range manifests.Manifests {
		if one.Platform != nil && one.Platform.Architecture == runtime.GOARCH {
			return index.Image(one.Digest)
		}
	}
	return nil, fmt.Errorf("it has no image for linux/%s", runtime.GOARCH)
}

// variables are the environment variables of the tests.
func (k *kindCluster) variables(ctx context.Context) []string {
	variables := []string{
		"VIDRA_E2E_KUBECONFIG=" + k.kubeconfig, "VIDRA_E2E_AUDIT_LOG=" + k.auditLog, "VIDRA_E2E_NODE_SHELL=docker exec",
	}
	address, err := k.address(ctx)
	if err != nil {
		k.say("tests that serve something to the cluster will be skipped: %s", err)
		return variables
	}
	return append(variables, "VIDRA_E2E_ADDRESS="+address)
}

// address returns the address of this machine at which the nodes reach it. A Docker engine in a
// virtual machine has none.
func (k *kindCluster) address(ctx context.Context) (string, error) {
	const format = "{{range .IPAM.Config}}{{println .Gateway}}{{end}}"
	out, err := exec.CommandContext(ctx, "docker", "network", "inspect", "kind", "--format", format).Output()
	if err != nil {
		return "", fmt.Errorf("reading the gateway of the Docker network: %w", err)
	}
	for address := range strings.FieldsSeq(string(out)) {
		if ip := net.ParseIP(address); ip == nil || ip.To4() == nil {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			return "", err
		}
		defer listener.Close() //nolint:errcheck // it has no data
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		connect := fmt.Sprintf("timeout 5 bash -c '</dev/tcp/%s/%s'", address, port)
		if out, err := exec.CommandContext(ctx, "docker", "exec", clusterName+"-control-plane", "bash", "-c", connect).CombinedOutput(); err != nil {
			return "", fmt.Errorf("a node cannot reach %s: %w: %s", address, err, out)
		}
		return address, nil
	}
	return "", errors.New("the Docker network kind has no IPv4 gateway")
}

// exportLogs writes the logs of the cluster, as `kind export logs` does.
func (k *kindCluster) exportLogs(dir string) {
	if err := k.provider.CollectLogs(clusterName, dir); err != nil {
		k.say("the logs are not complete: %s", err)
	}
	k.say("the logs of the cluster are in %s", dir)
}

// delete deletes the cluster, if there is one.
func (k *kindCluster) delete() error {
	if err := k.provider.Delete(clusterName, k.kubeconfig); err != nil {
		return fmt.Errorf("deleting the kind cluster %s: %w", clusterName, err)
	}
	return nil
}
