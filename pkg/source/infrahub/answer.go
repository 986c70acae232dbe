package infrahub

import (
	"bytes"
	"crypto/md5"  //nolint:gosec // the checksums of Infrahub
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MaxArtifacts is how many artifacts a list may have.
const MaxArtifacts = 5000

// Artifact is an artifact that the server lists. The query decides which fields are known: without one, it is empty.
type Artifact struct {
	// ID identifies the artifact, for all its contents.
	ID string
	// StorageID identifies the content.
	StorageID string
	// Checksum of the content.
	Checksum string
	// Name is the artifact_name of the definition.
	Name string
	// Status is Ready, Pending, Processing or Error.
	Status string
	// ContentType is the media type, such as application/yaml.
	ContentType string
	// Definition is the id of the definition.
	Definition string
	// Ambiguous means that the answer has the artifact twice, with different content.
	Ambiguous bool
}

// page is one answer to the query.
type page struct {
	artifacts []Artifact
	// count is how many artifacts there are on all pages; -1 if the query leaves it out.
	count int
}

// value is an attribute of a node: an object with the key value, or the value itself.
type value string

func (v *value) UnmarshalJSON(text []byte) error {
	var attribute struct {
		Value json.RawMessage `json:"value"`
		ID    json.RawMessage `json:"id"`
		Node  *struct {
			ID json.RawMessage `json:"id"`
		} `json:"node"`
	}
	if len(text) > 0 && text[0] == '{' {
		if err := json.Unmarshal(text, &attribute); err != nil {
			return err
		}
		switch {
		case len(attribute.Value) > 0:
			text = attribute.Value
		case len(attribute.ID) > 0:
			text = attribute.ID
		case attribute.Node != nil:
			text = attribute.Node.ID
		default:
			text = []byte("null")
		}
	}
	var plain *string
	if err := json.Unmarshal(text, &plain); err != nil {
		return errors.New("an attribute is no text")
	}
	if plain != nil {
		*v = value(*plain)
	}
	return nil
}

// parsePage reads the answer to the query. An error names the fault, without text of the answer.
func parsePage(body []byte) (page, error) {
	var answer struct {
		Data *struct {
			CoreArtifact *struct {
				Count *int `json:"count"`
				Edges *[]struct {
					Node *struct {
						ID          value `json:"id"`
						StorageID   value `json:"storage_id"`
						Checksum    value `json:"checksum"`
						Name        value `json:"name"`
						Status      value `json:"status"`
						ContentType value `json:"content_type"`
						Definition  value `json:"definition"`
					} `json:"node"`
				} `json:"edges"`
			} `json:"CoreArtifact"`
		} `json:"data"`
	}
	if looksLikeHTML(body) {
		return page{}, errors.New("the answer is an HTML page, of a proxy or a login: check spec.source.infrahubAPIURL")
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		if syntax, is := errors.AsType[*json.SyntaxError](err); is && syntax.Offset >= int64(len(body)) {
			return page{}, errors.New("the answer ends early: see the server and the proxies before it")
		}
		return page{}, errors.New("the answer is no JSON of an Infrahub server: check spec.source.infrahubAPIURL and the query")
	}
	if answer.Data == nil || answer.Data.CoreArtifact == nil || answer.Data.CoreArtifact.Edges == nil {
		return page{}, errors.New("the answer has no data.CoreArtifact.edges: the query must return them, see docs/infrahub.md")
	}
	list := answer.Data.CoreArtifact
	p := page{count: -1}
	if list.Count != nil {
		p.count = *list.Count
	}
	if len(*list.Edges) > MaxArtifacts {
		return page{}, fmt.Errorf("the answer has %d artifacts, and the limit is %d: use several artifact definitions", len(*list.Edges), MaxArtifacts)
	}
	for i, edge := range *list.Edges {
		if edge.Node == nil || edge.Node.ID == "" {
			return page{}, fmt.Errorf("artifact %d of the answer has no id: the query must return it, see docs/infrahub.md", i+1)
		}
		n := edge.Node
		p.artifacts = append(p.artifacts, Artifact{
			ID: string(n.ID), StorageID: string(n.StorageID), Checksum: string(n.Checksum), Name: string(n.Name),
			Status: string(n.Status), ContentType: string(n.ContentType), Definition: string(n.Definition),
		})
	}
	return p, nil
}

// merge adds artifacts to the artifacts of the pages before. An artifact that is listed twice counts once; it is ambiguous if its
// content differs.
func merge(all []Artifact, more []Artifact) []Artifact {
	index := make(map[string]int, len(all)+len(more))
	for i, a := range all {
		index[a.ID] = i
	}
	for _, a := range more {
		i, known := index[a.ID]
		if !known {
			index[a.ID] = len(all)
			all = append(all, a)
			continue
		}
		a.Ambiguous = all[i].Ambiguous
		if all[i] != a {
			all[i].Ambiguous = true
		}
	}
	return all
}

// looksLikeHTML reports whether an answer begins as an HTML page does.
func looksLikeHTML(body []byte) bool {
	begin := strings.ToLower(string(bytes.TrimSpace(body[:min(len(body), 512)])))
	return strings.HasPrefix(begin, "<!doctype html") || strings.HasPrefix(begin, "<html")
}

// hashes are the functions of the checksums that can be compared, by their sizes.
var hashes = map[int]func() hash.Hash{md5.Size: md5.New, sha1.Size: sha1.New, sha256.Size: sha256.New}

// hashOf returns a hash that makes checksums like this one, and its value; nil for a checksum that cannot be compared.
func hashOf(checksum string) (hash.Hash, []byte) {
	want, err := hex.DecodeString(checksum)
	if made := hashes[len(want)]; err == nil && made != nil {
		return made(), want
	}
	return nil, nil
}

// Verify compares content with its checksum: an MD5, SHA-1 or SHA-256 in hexadecimal digits. Other checksums identify the
// content for Infrahub alone, and verify nothing.
func Verify(content []byte, checksum string) error {
	sum, want := hashOf(checksum)
	if sum == nil {
		return nil
	}
	_, _ = sum.Write(content) // never fails
	if !bytes.Equal(sum.Sum(nil), want) {
		return errors.New("the content does not have the checksum that the server lists: it changed meanwhile, or is damaged; Vidra reads it again at the next query")
	}
	return nil
}

// relative is a date before now: "now-2h", "-2d".
var relative = regexp.MustCompile(`^[a-zA-Z]*-([0-9]{1,5})([smhdw])$`)

// At returns the time of spec.source.targetDate in the form that Infrahub reads: RFC 3339 in UTC. It is empty for an empty
// date, which means now. Days and weeks are unknown to Infrahub itself.
func At(date string, now time.Time) (string, error) {
	if date == "" {
		return "", nil
	}
	now = now.UTC() // days have 24 hours
	if at, err := time.Parse(time.RFC3339, strings.ToUpper(date)); err == nil {
		return at.UTC().Format(time.RFC3339Nano), nil
	}
	parts := relative.FindStringSubmatch(date)
	if parts == nil {
		return "", fmt.Errorf("spec.source.targetDate is %q: it must be a time in RFC 3339, such as 2025-01-01T00:00:00Z, or relative to now, such as now-2h or -2d", date)
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return "", err
	}
	switch parts[2] {
	case "w":
		now = now.AddDate(0, 0, -7*n)
	case "d":
		now = now.AddDate(0, 0, -n)
	default:
		unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[parts[2]]
		now = now.Add(-time.Duration(n) * unit)
	}
	return now.Format(time.RFC3339), nil
}
