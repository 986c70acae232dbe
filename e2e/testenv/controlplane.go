package testenv

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// AuditPolicy notes every request once, when it is answered. Watches are noted
// when they begin and when they end.
const AuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// GCPercent is GOGC of the control plane. Tests wait for its processor time more than for its
// memory: with the default of 100 a sixth of the time is garbage collection, with 400 a twentieth.
const GCPercent = 400

// controlPlaneEnv returns what is added to the environment of the processes of the control plane. With one CPU
// each they take a third less processor time, as the Go runtime then neither looks for work on other CPUs
// nor wakes them.
func controlPlaneEnv(o Options) []string {
	env := []string{"GOGC=" + strconv.Itoa(GCPercent)}
	if !o.AllCPUs {
		env = append(env, "GOMAXPROCS=1")
	}
	return env
}

// startAPIServer starts etcd and kube-apiserver with envtest, and fills in
// Config. envtest is made for tests without controllers; what it turns off for
// them is turned on again.
func (e *Env) startAPIServer(o Options) error {
	local := false
	e.control = &envtest.Environment{
		UseExistingCluster:       &local,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  stopTimeout,
	}
	policy := e.path("audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(AuditPolicy), 0o600); err != nil {
		return err
	}
	admin, tokens := rand.Text(), e.path("tokens.csv")
	if err := os.WriteFile(tokens, []byte(admin+",admin,admin,system:masters\n"), 0o600); err != nil {
		return err
	}
	api, etcd := e.control.ControlPlane.GetAPIServer(), &envtest.Etcd{}
	e.control.ControlPlane.Etcd = etcd
	etcd.DataDir, api.CertDir = e.path("etcd"), e.path("apiserver")

	var err error
	if etcd.Path, err = e.leash.wrapper(filepath.Join(o.Assets, etcdName), controlPlaneEnv(o)...); err != nil {
		return err
	}
	if api.Path, err = e.leash.wrapper(filepath.Join(o.Assets, apiServerName), controlPlaneEnv(o)...); err != nil {
		return err
	}
	api.Configure().
		Set("authorization-mode", "RBAC").
		Set("token-auth-file", tokens).
		Disable("disable-admission-plugins"). // envtest turns ServiceAccount off
		Set("audit-policy-file", policy).
		Set("audit-log-path", e.AuditLog).
		Set("audit-log-mode", "blocking-strict"). // a request that is not noted fails
		Set("audit-log-maxsize", "1048576").      // megabytes: it is never rotated
		// No Pod runs that could use the endpoints of the API server, and with
		// them it would want a network interface besides loopback.
		Set("advertise-address", "127.0.0.1").
		Set("endpoint-reconciler-type", "none")

	logs, err := openLogs(e.path("etcd.log"), e.path("kube-apiserver.log"))
	if err != nil {
		return err
	}
	defer closeAll(logs) // the processes have their own handles
	etcd.Out, etcd.Err, api.Out, api.Err = logs[0], logs[0], logs[1], logs[1]

	cfg, err := e.control.Start()
	if err != nil {
		return fmt.Errorf("%w; %s; %s", err, tailFile(e.path("etcd.log")), tailFile(e.path("kube-apiserver.log")))
	}
	// A client certificate is verified for each request, which takes a tenth of the API server's time.
	e.Config = rest.AnonymousClientConfig(cfg)
	e.Config.BearerToken = admin
	e.Config.QPS = -1
	return nil
}

// idleControllers are controllers that have nothing to do without kubelets and volumes, and that all supported versions know. Each would make a
// ServiceAccount and start informers on each control plane.
var idleControllers = []string{
	"certificatesigningrequest-approving-controller", "certificatesigningrequest-cleaner-controller",
	"certificatesigningrequest-signing-controller", "ephemeral-volume-controller",
	"legacy-serviceaccount-token-cleaner-controller", "node-ipam-controller", "node-lifecycle-controller",
	"persistentvolume-attach-detach-controller", "persistentvolume-expander-controller",
	"taint-eviction-controller", "ttl-controller",
}

// startControllerManager starts kube-controller-manager as kubeadm would, but for idleControllers: as
// the user that Kubernetes has a role for, each controller with a
// ServiceAccount of its own.
func (e *Env) startControllerManager(o Options) error {
	cfg, err := e.UserConfig("system:kube-controller-manager")
	if err != nil {
		return err
	}
	kubeconfig, rootCA := e.path("kube-controller-manager.kubeconfig"), e.path("root-ca.crt")
	if err := writeKubeconfig(kubeconfig, cfg); err != nil {
		return err
	}
	if err := os.WriteFile(rootCA, e.Config.CAData, 0o600); err != nil {
		return err
	}
	port, err := FreePort()
	if err != nil {
		return err
	}
	e.manager, err = startProcess(e.leash, processOptions{
		name: controllerManagerName,
		path: filepath.Join(o.Assets, controllerManagerName),
		env:  controlPlaneEnv(o),
		log:  e.path("kube-controller-manager.log"),
		args: []string{
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--leader-elect=false",
			"--use-service-account-credentials=true",
			"--service-account-private-key-file=" + e.path("apiserver/sa-signer.key"),
			"--root-ca-file=" + rootCA,
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--cert-dir=" + e.path("kube-controller-manager"),
			"--controllers=*,-" + strings.Join(idleControllers, ",-"),
			// Many objects come and go in a short time here.
			"--kube-api-qps=200",
			"--kube-api-burst=400",
		},
	})
	return err
}

// UserConfig returns a configuration that reaches the API server as the user,
// with a client certificate, or by impersonation if the Env is connected to a cluster. What the
// user may do is up to RBAC. It may be called from several goroutines.
func (e *Env) UserConfig(name string, groups ...string) (*rest.Config, error) {
	if e.Connected() {
		user := rest.CopyConfig(e.Config)
		user.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: append(groups, "system:authenticated")}
		return user, nil
	}
	e.users.Lock() // the authority of envtest counts its certificates
	defer e.users.Unlock()
	user, err := e.control.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{QPS: -1})
	if err != nil {
		return nil, fmt.Errorf("making a certificate for user %s: %w", name, err)
	}
	return user.Config(), nil
}

// openLogs creates the files, or none.
func openLogs(paths ...string) ([]*os.File, error) {
	var files []*os.File
	for _, path := range paths {
		f, err := os.Create(path)
		if err != nil {
			closeAll(files)
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Processes returns the ids of the processes of the control plane by the names of their executables; none if
// the Env is connected to a cluster.
func (e *Env) Processes() map[string]int {
	pids := map[string]int{}
	if e.Connected() {
		return pids
	}
	for _, name := range []string{etcdName, apiServerName, controllerManagerName} {
		if pid, err := e.leash.pid(name); err == nil {
			pids[name] = pid
		}
	}
	return pids
}
