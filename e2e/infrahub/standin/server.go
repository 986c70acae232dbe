// Package standin is a server that speaks the part of the API of Infrahub that Vidra uses: login, the query of artifacts, and
// their content. It stands for Infrahub 1.11 in tests and in the tour of docs/infrahub.md.
//
// An answer is as that of Infrahub, faults included: an account that may only read is refused the query by POST, a token
// expires, an unknown query is not found. Instead changes any answer. Nothing is stored.
package standin

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Artifact is an artifact on a branch.
type Artifact struct {
	ID, Name, Branch string
	// Content is the manifest.
	Content string
	// Status and ContentType are Ready and application/yaml unless set.
	Status, ContentType string
	// Checksum is the MD5 of the content unless set.
	Checksum string
	// Storage is where the content is stored: another one has another storage id.
	Storage string
}

func (a Artifact) checksum() string {
	if a.Checksum != "" {
		return a.Checksum
	}
	sum := md5.Sum([]byte(a.Content))
	return hex.EncodeToString(sum[:])
}

func (a Artifact) storageID() string { return "storage-" + a.Storage + a.checksum() + "-" + a.ID }

// Request is a request that the server received.
type Request struct {
	Method, Path string
	Query        url.Values
	// Body is that of a query.
	Body string
	// Bearer and Key are the credentials.
	Bearer, Key string
	// Time is when the server received it.
	Time time.Time
}

// Options configure a Server. The zero value accepts admin with the password infrahub, and no key.
type Options struct {
	Username, Password, Key string
	// RefusePost is the status that answers the query by POST; none if 0. Infrahub sends 403 to accounts that may only read.
	RefusePost int
	// QueryName is ArtifactIDs unless set.
	QueryName string
	// PageSize is how many artifacts a page has; 0 for all. The answer has the count then.
	PageSize int
	// Plain leaves out what the query of the first operator does not ask for: status, content type and definition.
	Plain bool
	// NoStorage leaves out the storage id.
	NoStorage bool
}

// Server is an http.Handler. It is safe for concurrent use.
type Server struct {
	options Options

	mu        sync.Mutex
	artifacts map[string]Artifact
	past      []snapshot
	tokens    map[string]bool
	issued    int
	requests  []Request
	instead   func(w http.ResponseWriter, r *http.Request) bool
}

// snapshot is what the server had until a time.
type snapshot struct {
	until     time.Time
	artifacts map[string]Artifact
}

// New returns a Server without artifacts.
func New(o Options) *Server {
	if o.Username == "" {
		o.Username, o.Password = "admin", "infrahub"
	}
	if o.QueryName == "" {
		o.QueryName = "ArtifactIDs"
	}
	return &Server{options: o, artifacts: map[string]Artifact{}, tokens: map[string]bool{}}
}

// Set adds or replaces artifacts.
func (s *Server) Set(all ...Artifact) {
	s.change(func(artifacts map[string]Artifact) {
		for _, a := range all {
			artifacts[a.Branch+"/"+a.ID] = a
		}
	})
}

// Remove removes artifacts by their ids, from all branches.
func (s *Server) Remove(ids ...string) {
	s.change(func(artifacts map[string]Artifact) {
		maps.DeleteFunc(artifacts, func(_ string, a Artifact) bool { return slices.Contains(ids, a.ID) })
	})
}

// Change removes artifacts by their ids, from all branches, and adds others, at once.
func (s *Server) Change(gone []string, added ...Artifact) {
	s.change(func(artifacts map[string]Artifact) {
		maps.DeleteFunc(artifacts, func(_ string, a Artifact) bool { return slices.Contains(gone, a.ID) })
		for _, a := range added {
			artifacts[a.Branch+"/"+a.ID] = a
		}
	})
}

func (s *Server) change(do func(map[string]Artifact)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past = append(s.past, snapshot{until: time.Now(), artifacts: maps.Clone(s.artifacts)})
	s.past = s.past[max(0, len(s.past)-1000):]
	do(s.artifacts)
}

// Age makes the history of the artifacts older.
func (s *Server) Age(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.past {
		s.past[i].until = s.past[i].until.Add(-by)
	}
}

// Revoke has the server refuse all tokens that it has issued.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Instead has answer answer requests, if it returns true. nil ends that.
func (s *Server) Instead(answer func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instead = answer
}

// Requests returns the requests so far whose path begins with a prefix.
func (s *Server) Requests(prefix string) (found []Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r.Path, prefix) {
			found = append(found, r)
		}
	}
	return found
}

// Reset forgets the requests.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // the client is gone
	}
	path := r.URL.Path
	query := strings.HasPrefix(path, "/api/query/")
	s.mu.Lock()
	received := Request{Time: time.Now(), Method: r.Method, Path: path, Query: r.URL.Query(), Key: r.Header.Get("X-INFRAHUB-KEY")}
	received.Bearer, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if query {
		received.Body = string(body)
	}
	s.requests = append(s.requests, received)
	instead := s.instead
	s.mu.Unlock()
	if instead != nil && instead(w, r) {
		return
	}
	if path == "/api/auth/login" {
		s.login(w, r, body)
		return
	}
	s.mu.Lock()
	known := s.tokens[received.Bearer] || s.options.Key != "" && received.Key == s.options.Key
	s.mu.Unlock()
	switch {
	case !known:
		refuse(w, http.StatusUnauthorized, "Authentication is required")
	case query && strings.TrimPrefix(path, "/api/query/") != s.options.QueryName:
		refuse(w, http.StatusNotFound, "Unable to find the GraphQL query")
	case query && r.Method == http.MethodPost && s.options.RefusePost > 0:
		refuse(w, s.options.RefusePost, "You are not allowed to perform this operation")
	case query:
		s.list(w, r, body)
	case strings.HasPrefix(path, "/api/artifact/"):
		s.content(w, r, func(a Artifact) bool {
			return a.ID == strings.TrimPrefix(path, "/api/artifact/") && a.Branch == r.URL.Query().Get("branch")
		})
	case strings.HasPrefix(path, "/api/storage/object/"):
		s.content(w, r, func(a Artifact) bool { return a.storageID() == strings.TrimPrefix(path, "/api/storage/object/") })
	default:
		refuse(w, http.StatusNotFound, "Not Found")
	}
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"data": nil, "errors": []any{map[string]any{"message": message, "extensions": map[string]any{"code": status}}}})
}

func (s *Server) login(w http.ResponseWriter, r *http.Request, body []byte) {
	var given struct{ Username, Password string }
	if r.Method != http.MethodPost || json.Unmarshal(body, &given) != nil {
		refuse(w, http.StatusUnprocessableEntity, "Input should be a valid dictionary")
		return
	}
	if given.Username != s.options.Username || given.Password != s.options.Password {
		refuse(w, http.StatusUnauthorized, "Incorrect password")
		return
	}
	s.mu.Lock()
	s.issued++
	token := fmt.Sprintf("token-%d-%d", s.issued, time.Now().UnixNano())
	s.tokens[token] = true
	s.mu.Unlock()
	answer(w, map[string]string{"access_token": token, "refresh_token": "refresh-" + token})
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// at returns the artifacts at the time that a request names.
func (s *Server) at(values url.Values) map[string]Artifact {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, err := time.Parse(time.RFC3339, values.Get("at")); err == nil {
		for _, old := range s.past {
			if at.Before(old.until) {
				return maps.Clone(old.artifacts)
			}
		}
	}
	return maps.Clone(s.artifacts)
}

// list answers the query: the artifacts of a name on a branch, in the order of their ids.
func (s *Server) list(w http.ResponseWriter, r *http.Request, body []byte) {
	var given struct {
		Variables struct {
			Name   string `json:"artifactname"`
			Offset int    `json:"offset"`
		} `json:"variables"`
	}
	given.Variables.Name = r.URL.Query().Get("artifactname")
	_, _ = fmt.Sscan(r.URL.Query().Get("offset"), &given.Variables.Offset)
	if r.Method == http.MethodPost && json.Unmarshal(body, &given) != nil {
		refuse(w, http.StatusUnprocessableEntity, "Input should be a valid dictionary")
		return
	}
	var found []Artifact
	for _, a := range s.at(r.URL.Query()) {
		if a.Name == given.Variables.Name && a.Branch == r.URL.Query().Get("branch") {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b Artifact) int { return strings.Compare(a.ID, b.ID) })
	list := map[string]any{}
	if s.options.PageSize > 0 {
		list["count"] = len(found)
		found = found[min(len(found), given.Variables.Offset):]
		found = found[:min(len(found), s.options.PageSize)]
	}
	edges := []any{}
	for _, a := range found {
		node := map[string]any{
			"id": a.ID, "storage_id": map[string]any{"id": a.storageID()}, "checksum": map[string]any{"value": a.checksum()}, "name": map[string]any{"value": a.Name},
		}
		if s.options.NoStorage {
			delete(node, "storage_id")
		}
		if !s.options.Plain {
			node["status"] = map[string]any{"value": orDefault(a.Status, "Ready")}
			node["content_type"] = map[string]any{"value": orDefault(a.ContentType, "application/yaml")}
			node["definition"] = map[string]any{"node": map[string]any{"id": "definition"}}
		}
		edges = append(edges, map[string]any{"node": node})
	}
	list["edges"] = edges
	answer(w, map[string]any{"data": map[string]any{"CoreArtifact": list}})
}

func orDefault(value, other string) string {
	if value == "" {
		return other
	}
	return value
}

func (s *Server) content(w http.ResponseWriter, r *http.Request, is func(Artifact) bool) {
	for _, a := range s.at(r.URL.Query()) {
		if is(a) {
			w.Header().Set("Content-Type", orDefault(a.ContentType, "application/yaml"))
			_, _ = w.Write([]byte(a.Content))
			return
		}
	}
	refuse(w, http.StatusNotFound, "Unable to find the artifact")
}

// Webhook returns the headers and the body of a webhook as Infrahub signs it with a key.
func Webhook(key, id, event, branch string, at time.Time) (http.Header, []byte) {
	//nolint:misspell // Infrahub spells it so
	body, err := json.Marshal(map[string]any{"data": map[string]any{}, "id": id, "branch": branch, "account_id": nil, "occured_at": at.UTC().Format(time.RFC3339), "event": event})
	if err != nil {
		panic(err) // it is made of texts
	}
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("webhook-id", "msg_"+id)
	header.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = fmt.Fprintf(mac, "msg_%s.%d.%s", id, at.Unix(), body)
	header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return header, body
}

// Replace has the server have these artifacts and no others.
func (s *Server) Replace(all ...Artifact) {
	s.change(func(artifacts map[string]Artifact) {
		clear(artifacts)
		for _, a := range all {
			artifacts[a.Branch+"/"+a.ID] = a
		}
	})
}
