package sync

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	gosync "sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/source/infrahub"
)

const (
	// credentialsAge is for how long credentials are used until their Secret is read again. A refused token has it read at once.
	credentialsAge = 5 * time.Minute
	// settingsAge is for how long settings are used until their ConfigMap is read again.
	settingsAge = time.Minute
	// defaultQuery is the name of the query without a setting.
	defaultQuery = "ArtifactIDs"
)

// server is an Infrahub server with the credentials of a Secret. All InfrahubSyncs of the server share the token.
type server struct {
	key    serverKey
	client *infrahub.Client

	// mu guards the fields below.
	mu gosync.Mutex
	// checked is when the Secret was read last.
	checked time.Time
	// notBefore is when the server accepts the next request.
	notBefore time.Time
}

// serverKey identifies a server and a version of credentials.
type serverKey struct {
	url, secretVersion string
	secret             types.UID
}

// waits returns how long the server asked to wait.
func (s *server) waits(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notBefore.Sub(now)
}

// delay records the wait that an error asks for.
func (s *server) delay(err error) {
	if e, is := errors.AsType[*infrahub.Error](err); is && e.RetryAfter > 0 {
		s.mu.Lock()
		s.notBefore = time.Now().Add(e.RetryAfter)
		s.mu.Unlock()
	}
}

// expire has the Secret read at the next sync.
func (s *server) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked = time.Time{}
}

// servers are the servers in use. The zero value is empty.
type servers struct {
	mu  gosync.Mutex
	all map[serverKey]*server
}

// get returns the server of a key, which make makes if it is missing.
func (s *servers) get(key serverKey, makeClient func() (*infrahub.Client, error)) (*server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.all[key]; one != nil {
		return one, nil
	}
	made, err := makeClient()
	if err != nil {
		return nil, err
	}
	if s.all == nil {
		s.all = map[serverKey]*server{}
	}
	s.all[key] = &server{key: key, client: made}
	return s.all[key], nil
}

// retain forgets all servers but those in use.
func (s *servers) retain(used map[*server]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, one := range s.all {
		if !used[one] {
			one.client.Close()
			delete(s.all, key)
		}
	}
}

// serverOf returns the URL of the server of an InfrahubSync.
func serverOf(is *v1alpha1.InfrahubSync) string {
	return strings.TrimSuffix(is.Spec.Source.InfrahubAPIURL, "/")
}

// server returns the server of an InfrahubSync. It reads the Secret with the credentials if its last read is older than credentialsAge,
// or if the server refused them.
func (r *Reconciler) server(ctx context.Context, is *v1alpha1.InfrahubSync, s *session) (*server, error) {
	to := serverOf(is)
	if s.server != nil && s.server.key.url == to {
		s.server.mu.Lock()
		fresh := time.Since(s.server.checked) < credentialsAge
		s.server.mu.Unlock()
		if fresh {
			return s.server, nil
		}
	}
	secret, err := r.secretFor(ctx, to)
	if err != nil {
		return nil, err
	}
	credentials, err := credentialsOf(secret, to)
	if err != nil {
		return nil, err
	}
	key := serverKey{url: to, secret: secret.UID, secretVersion: secret.ResourceVersion}
	one, err := r.servers.get(key, func() (*infrahub.Client, error) {
		return infrahub.New(infrahub.Options{
			URL: to, Credentials: credentials, CA: secret.Data["ca.crt"], UserAgent: r.Options.UserAgent, Sent: r.Metrics.sent,
		})
	})
	if err != nil {
		return nil, err
	}
	one.mu.Lock()
	one.checked = time.Now()
	one.mu.Unlock()
	if s.server != one {
		r.setServer(s, one)
	}
	return one, nil
}

// missing is the error of unusable credentials.
func missing(format string, args ...any) error {
	return &infrahub.Error{Reason: v1alpha1.SyncReasonCredentialsMissing, Message: fmt.Sprintf(format, args...)}
}

// secretFor returns the Secret with the credentials for a server: one in the namespace of the operator, else the oldest one,
// so that a new Secret in another namespace replaces none.
func (r *Reconciler) secretFor(ctx context.Context, to string) (*corev1.Secret, error) {
	parsed, err := url.Parse(to)
	if err != nil {
		return nil, &infrahub.Error{Reason: v1alpha1.SyncReasonSpecInvalid, Message: "spec.source.infrahubAPIURL is no URL"}
	}
	host := parsed.Hostname()
	if len(validation.IsValidLabelValue(host)) > 0 {
		return nil, &infrahub.Error{Reason: v1alpha1.SyncReasonSpecInvalid, Message: fmt.Sprintf(
			"the host %s of spec.source.infrahubAPIURL is no value of a label, by which its credentials are found: use a host of at most 63 letters, digits, dashes and dots", host)}
	}
	where, list := "in any namespace", &corev1.SecretList{}
	if r.Options.CredentialsNamespace != "" {
		where = "in namespace " + r.Options.CredentialsNamespace
	}
	err = r.API.List(ctx, list, client.InNamespace(r.Options.CredentialsNamespace), client.MatchingLabels{v1alpha1.InfrahubURLLabel: host})
	if apierrors.IsForbidden(err) {
		return nil, missing("Vidra may not list Secrets %s: grant it list on secrets there, or set --infrahub-credentials-namespace", where)
	} else if err != nil {
		return nil, missing("list the Secrets with the label %s=%s %s: %s", v1alpha1.InfrahubURLLabel, host, where, err)
	}
	if len(list.Items) == 0 {
		return nil, missing("no Secret %s has the label %s=%s: create one with the keys username and password, or token, for example with vidra infrahub credentials apply", where, v1alpha1.InfrahubURLLabel, host)
	}
	sortSecrets(list.Items, r.Options.Namespace)
	return &list.Items[0], nil
}

// sortSecrets sorts Secrets with credentials by precedence: those in the namespace of the operator, then the oldest ones.
func sortSecrets(all []corev1.Secret, namespace string) {
	slices.SortFunc(all, func(a, b corev1.Secret) int {
		return cmp.Or(cmp.Compare(boolRank(a.Namespace == namespace), boolRank(b.Namespace == namespace)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
}

// boolRank puts true before false.
func boolRank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// credentialsOf returns the credentials in a Secret.
func credentialsOf(secret *corev1.Secret, to string) (infrahub.Credentials, error) {
	value := func(key string) string { return string(bytes.TrimSpace(secret.Data[key])) }
	c := infrahub.Credentials{Username: value("username"), Password: value("password"), Token: value("token")}
	name := "Secret " + secret.Namespace + "/" + secret.Name
	switch {
	case strings.ContainsAny(c.Token, "\r\n\x00"):
		return c, missing("%s has a token with line breaks: write it again", name)
	case c.Token == "" && (c.Username == "" || c.Password == ""):
		return c, missing("%s has neither the keys username and password nor the key token: add them", name)
	}
	if only := value("infrahubapiurl"); only != "" && !sameOrigin(only, to) {
		return c, missing("%s is for another URL: its key infrahubapiurl has not the scheme, host and port of spec.source.infrahubAPIURL. Correct one of them", name)
	}
	return c, nil
}

// sameOrigin reports whether two URLs have the same scheme, host and port. A URL without a scheme has the scheme of the other
// one.
func sameOrigin(only, to string) bool {
	is, err := url.Parse(to)
	if err != nil {
		return false
	}
	if !strings.Contains(only, "://") {
		only = is.Scheme + "://" + only
	}
	want, err := url.Parse(only)
	if err != nil {
		return false
	}
	port := func(u *url.URL) string {
		return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	return want.Scheme == is.Scheme && strings.EqualFold(want.Hostname(), is.Hostname()) && port(want) == port(is)
}

// firstSettings are the settings in the ConfigMap of the first operator.
type firstSettings struct {
	query    string
	interval time.Duration
}

// cachedSettings are settings with their age. The zero value has the defaults.
type cachedSettings struct {
	mu   gosync.Mutex
	read time.Time
	now  firstSettings
}

// interval is the default of spec.interval; 0 if it is unset.
func (c *cachedSettings) interval() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.interval
}

// query returns the name of the query. It reads the ConfigMaps if their last read is older than settingsAge. Unreadable
// ConfigMaps leave the settings unchanged; at the start the sync fails.
func (r *Reconciler) query(ctx context.Context) (string, error) {
	c := &r.settings
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.read) < settingsAge {
		return c.now.query, nil
	}
	read, err := r.readSettings(ctx)
	if err != nil && c.read.IsZero() {
		return "", err
	}
	if err == nil {
		c.now = read
	}
	c.read = time.Now()
	return c.now.query, nil
}

// readSettings reads the ConfigMaps with the label app=vidra in the namespace of the operator, and FirstConfig before them.
// The first value of each key counts, of the newest ConfigMap.
func (r *Reconciler) readSettings(ctx context.Context) (firstSettings, error) {
	got := firstSettings{query: defaultQuery}
	var all []corev1.ConfigMap
	if r.Options.FirstConfig.Name != "" {
		one := corev1.ConfigMap{}
		if err := r.API.Get(ctx, r.Options.FirstConfig, &one); err != nil {
			return got, missing("read the ConfigMap %s: %s", r.Options.FirstConfig, err)
		}
		all = append(all, one)
	}
	if r.Options.Namespace != "" {
		list := &corev1.ConfigMapList{}
		err := r.API.List(ctx, list, client.InNamespace(r.Options.Namespace), client.MatchingLabels{"app": "vidra"})
		if err != nil && !apierrors.IsForbidden(err) { // without the right, there are none for the operator
			return got, missing("list the ConfigMaps with the label app=vidra in namespace %s: %s", r.Options.Namespace, err)
		}
		slices.SortFunc(list.Items, func(a, b corev1.ConfigMap) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
		all = append(all, list.Items...)
	}
	for _, key := range []string{"queryName", "requeueSyncAfter"} {
		for _, cm := range all {
			value := strings.TrimSpace(cm.Data[key])
			if value == "" {
				continue
			}
			if key == "queryName" {
				got.query = value
			} else if interval, err := time.ParseDuration(value); err == nil && interval > 0 {
				got.interval = max(interval, v1alpha1.MinSyncInterval)
			}
			break
		}
	}
	return got, nil
}
