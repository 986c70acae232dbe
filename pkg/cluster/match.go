package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxNamedSecrets is the maximum number of invalid Secrets that an error names.
const maxNamedSecrets = 5

// match returns the credentials for an API server. The whole URL must match or, if none does,
// scheme, host and port where one of the two URLs has no path. Different paths are different
// clusters behind one host. match returns nil if there is no match, and an error if there is
// more than one. byOrigin has the Secrets with a context for each origin.
func match(server string, byOrigin map[string][]*source) (*access, error) {
	wanted, err := parseServer(server)
	if err != nil {
		return nil, err
	}
	sources := byOrigin[originOf(wanted)]
	for _, matches := range []func(*access) bool{
		func(a *access) bool { return a.server.String() == server },
		func(a *access) bool {
			return originOf(a.server) == originOf(wanted) && (a.server.Path == "" || wanted.Path == "")
		},
	} {
		var found [][]*access
		for _, s := range sources {
			if of := preferred(slices.DeleteFunc(slices.Clone(s.all), func(a *access) bool { return !matches(a) })); len(of) > 0 {
				found = append(found, of)
			}
		}
		switch {
		case len(found) == 1 && len(found[0]) == 1:
			return found[0][0], nil
		case len(found) > 0:
			return nil, ambiguous(server, found)
		}
	}
	return nil, nil
}

// preferred selects from the contexts of one kubeconfig the current one, if it is among them, and
// otherwise one for each cluster and user.
func preferred(contexts []*access) []*access {
	if i := slices.IndexFunc(contexts, func(a *access) bool { return a.current }); i >= 0 {
		return contexts[i : i+1]
	}
	var different []*access
	for _, a := range contexts {
		if !slices.ContainsFunc(different, a.same) {
			different = append(different, a)
		}
	}
	return different
}

// ambiguous returns the error for an API server that more than one context matches.
func ambiguous(server string, found [][]*access) error {
	if len(found) == 1 {
		var contexts []string
		for _, a := range found[0] {
			contexts = append(contexts, a.context)
		}
		return fmt.Errorf("the kubeconfig in Secret %s has more than one context for %s, %s: make one of them its current-context",
			found[0][0].secret, server, strings.Join(contexts, ", "))
	}
	var secrets []string
	for _, contexts := range found {
		secrets = append(secrets, contexts[0].secret)
	}
	slices.Sort(secrets)
	return fmt.Errorf("more than one Secret has a kubeconfig for %s: %s: keep the label %s on only one of them",
		server, strings.Join(secrets, ", "), KubeconfigLabel)
}

// ErrUnmatched is the error of a remote cluster without a Secret that has its kubeconfig.
var ErrUnmatched = errors.New("no kubeconfig")

// unmatchedError is an ErrUnmatched that says where the Secrets are.
type unmatchedError string

// Error implements error.
func (e unmatchedError) Error() string { return string(e) }

// Is reports whether target is ErrUnmatched.
func (e unmatchedError) Is(target error) bool { return target == ErrUnmatched }

// unmatched returns the ErrUnmatched for an API server that no Secret matches.
func unmatched(server, namespace string, sources []*source) error {
	var unread []string
	for _, s := range sources {
		if s.err != nil {
			// A line for each context.
			unread = append(unread, s.secret()+" ("+strings.ReplaceAll(s.err.Error(), "\n", "; ")+")")
		}
	}
	slices.Sort(unread)
	hint := ""
	if more := len(unread) - maxNamedSecrets; more > 0 {
		unread = append(unread[:maxNamedSecrets], fmt.Sprintf("and %d more", more))
	}
	if len(unread) > 0 {
		hint = "; not read: " + strings.Join(unread, ", ")
	}
	return unmatchedError(fmt.Sprintf("no Secret with the label %s %s has a kubeconfig for %s: create one, or correct the URL%s",
		KubeconfigLabel, inNamespace(namespace), server, hint))
}
