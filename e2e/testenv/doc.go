// Package testenv runs a real Kubernetes control plane on this machine, with no
// container engine: etcd, kube-apiserver and kube-controller-manager, each a
// process, and the Vidra operator beside them when asked to.
//
// It is the one place that knows how. The end-to-end tests, the benchmark and
// the demo all start here:
//
//	env, err := testenv.Start(ctx, testenv.Options{Out: os.Stderr})
//	defer env.Stop()
//	err = env.Install(ctx)                                  // config/default
//	bin, err := testenv.BuildOperator(ctx, os.Stderr, true) // ./cmd/operator
//	op, err := env.StartOperator(ctx, testenv.OperatorOptions{Binary: bin})
//
// What can be relied on:
//
//   - The control plane is one that a production cluster would recognize: RBAC
//     authorization and the default admission plugins are on, every request is
//     in the audit log, garbage collection, namespace deletion, ServiceAccounts,
//     Deployments and quotas work. There is no node and no scheduler, so Pods
//     stay Pending.
//   - The binaries are built once, from the versions that e2e/controlplane pins,
//     and kept in the user's cache folder. A broken build is never mistaken for
//     a good one, and two builds at a time do the work once.
//   - Nothing outlives the process that started it, however that process ends.
//
// The package never downloads binaries, needs no root and listens on loopback
// addresses only. It runs on Linux and macOS.
package testenv
