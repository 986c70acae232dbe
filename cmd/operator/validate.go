package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/vidra-operator/vidra/cmd/internal/configfile"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/source/flux"
)

const (
	pprofFlag    = "pprof-bind-address"
	intervalFlag = "default-interval"
	shardFlag    = "watch-label-selector"
)

const (
	// maxWorkers is the maximum of --workers.
	maxWorkers = 256
	// minBackstop is the minimum of --backstop-interval.
	minBackstop = time.Second
)

// complete sets the flags that the command line leaves unset from the file of --config. fs has
// been parsed.
func (o *options) complete(fs *flag.FlagSet) error {
	o.origins = configfile.CommandLine(fs)
	if o.config == "" {
		return nil
	}
	return configfile.Load(o.config, fs, o.origins)
}

// validate returns an error for each value that the operator cannot honor.
func (o *options) validate() error {
	var faults []error
	refuse := func(name string, value any, reason string) {
		faults = append(faults, fmt.Errorf("%s is %v: %s", o.origins.Name(name), value, reason))
	}
	if o.workers < 1 {
		refuse("workers", o.workers, "at least one is needed")
	}
	if o.eventValues != eventValuesAll && o.eventValues != eventValuesNone {
		refuse("event-values", fmt.Sprintf("%q", o.eventValues), "it must be "+eventValuesAll+" or "+eventValuesNone)
	}
	if o.workers > maxWorkers {
		refuse("workers", o.workers, fmt.Sprintf("at most %d are allowed", maxWorkers))
	}
	if o.backstopInterval != 0 && o.backstopInterval < minBackstop {
		refuse("backstop-interval", o.backstopInterval, "it must be at least "+minBackstop.String()+", or 0 for no backstop")
	}
	if o.maxBreakGlass < 0 {
		refuse("max-break-glass", o.maxBreakGlass, "give 0 to accept no break-glass")
	}
	if o.defaultInterval < v1alpha1.MinInterval {
		refuse(intervalFlag, o.defaultInterval, "it must be at least "+v1alpha1.MinInterval.String())
	}
	if o.scope.LimitsNamespaces() && o.impersonation != nil {
		refuse("impersonation-namespaces", o.impersonation, "it selects namespaces by their labels, and with --"+cluster.NamespacesFlag+" the operator watches no Namespaces. "+
			"Remove it: VidraResources may name only accounts of the listed namespaces then")
	}
	if _, err := flux.ParseHosts(o.artifactHosts); err != nil {
		refuse(artifactHostsFlag, fmt.Sprintf("%q", o.artifactHosts), err.Error())
	}
	if (o.webhookAddress == "") != (o.webhookKeyFile == "") {
		refuse(webhookFlag, fmt.Sprintf("%q", o.webhookAddress), "it needs --"+webhookKeyFlag+", and that flag needs it")
	}
	if (o.publishAddress == "") != (o.publishURL == "") {
		refuse(publishFlag, fmt.Sprintf("%q", o.publishAddress), "it needs --"+publishURLFlag+", and that flag needs it")
	}
	if u, err := url.Parse(o.publishURL); o.publishURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		refuse(publishURLFlag, fmt.Sprintf("%q", o.publishURL), "it must be an http or https URL without a query")
	}
	if o.publishAddress != "" && o.namespace() == "" {
		refuse(publishFlag, fmt.Sprintf("%q", o.publishAddress), "the archives need the namespace of the operator: outside of a Pod, give it --leader-election-namespace")
	}
	if _, known := o.credentialsNamespace(); o.infrahub && !known {
		refuse("infrahub-credentials-namespace", `""`, "it is the namespace of the operator, which is unknown outside of a Pod: name one, give * for all namespaces, or set --infrahub=false if there is no Infrahub")
	}
	for _, a := range []struct{ flag, value, none string }{
		{"metrics-bind-address", o.metricsAddress, "0"}, {"health-probe-bind-address", o.probeAddress, "0"}, {webhookFlag, o.webhookAddress, ""}, {publishFlag, o.publishAddress, ""},
	} {
		if err := checkAddress(a.value); a.value != a.none && err != nil {
			refuse(a.flag, fmt.Sprintf("%q", a.value), "it must be HOST:PORT or :PORT: "+err.Error())
		}
	}
	for _, n := range []struct{ flag, value string }{
		{"leader-election-namespace", o.leaseNamespace}, {"kubeconfig-namespace", o.kubeconfigNamespace}, {"infrahub-credentials-namespace", o.infrahubCredentials},
	} {
		if all := n.value == allNamespaces && n.flag != "leader-election-namespace"; n.value == "" || all {
			continue
		}
		if problems := validation.IsDNS1123Label(n.value); len(problems) > 0 {
			refuse(n.flag, fmt.Sprintf("%q", n.value), "it must be the name of a namespace: "+problems[0])
		}
	}
	if namespace, name, _ := strings.Cut(o.firstConfig, "/"); o.firstConfig != "" && (namespace == "" || name == "" || strings.Contains(name, "/")) {
		refuse(firstConfigFlag, fmt.Sprintf("%q", o.firstConfig), "it must be NAMESPACE/NAME, such as vidra-system/vidra-config")
	}
	_, _, err := o.toolsOf()
	faults = append(faults, err)
	_, err = o.pprof()
	return errors.Join(append(faults, err)...)
}

// checkAddress returns an error for an address that the operator cannot listen on.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q is no port, which is a number up to 65535", port)
	}
	return nil
}

// pprof returns the address of the profiles, with the host 127.0.0.1 if it names none; empty if
// they are off.
func (o *options) pprof() (string, error) {
	if o.pprofAddress == "" || o.pprofAddress == "0" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(o.pprofAddress)
	if err == nil {
		err = checkAddress(o.pprofAddress)
	}
	if err != nil {
		return "", fmt.Errorf("%s is %q: it must be HOST:PORT, or :PORT for 127.0.0.1: %w", o.origins.Name(pprofFlag), o.pprofAddress, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}
