// A client of the guide's kind in Go: `go run client.go TASK.json`. See client.mjs, which is the same.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const givesUp = 30 * time.Second
const pngURL = "data:image/png;base64,"

type call struct {
	Language string   `json:"language"`
	Code     []string `json:"code"`
}

type item struct {
	Type     string  `json:"type"`
	Text     *string `json:"text"`
	ImageURL *string `json:"image_url"`
	Detail   *string `json:"detail"`
}

type answer struct {
	Output []item `json:"output"`
}

func main() {
	task, err := os.ReadFile(os.Args[1])
	check(err)
	var calls []call
	check(json.Unmarshal(task, &calls))
	id := make([]byte, 16)
	_, err = rand.Read(id)
	check(err)
	for _, one := range calls {
		said := []any{}
		for _, found := range execute(hex.EncodeToString(id), one) {
			said = append(said, told(found))
		}
		out := json.NewEncoder(os.Stdout)
		out.SetEscapeHTML(false)
		check(out.Encode(said))
	}
}

func execute(sessionID string, one call) []item {
	body, err := json.Marshal(map[string]string{
		"session_id": sessionID, "language": one.Language, "code": strings.Join(one.Code, "\n"),
	})
	check(err)
	url := strings.TrimSuffix(os.Getenv("OPENAI_EXAMPLE_CODE_EXECUTION_URL"), "/") + "/execute"
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	check(err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_EXAMPLE_CODE_EXECUTION_TOKEN"))
	response, err := (&http.Client{Timeout: givesUp}).Do(request)
	check(err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		fail(fmt.Sprintf("status %d: %s", response.StatusCode, text))
	}
	var found answer
	strict := json.NewDecoder(response.Body)
	strict.DisallowUnknownFields()
	check(strict.Decode(&found))
	if len(found.Output) == 0 {
		fail("no list of outputs")
	}
	return found.Output
}

func told(found item) any {
	switch {
	case found.Type == "input_text" && found.Text != nil && found.ImageURL == nil && found.Detail == nil:
		return *found.Text
	case found.Type == "input_image" && found.Text == nil && found.ImageURL != nil && found.Detail != nil &&
		*found.Detail == "original" && strings.HasPrefix(*found.ImageURL, pngURL):
		png, err := base64.StdEncoding.DecodeString((*found.ImageURL)[len(pngURL):])
		check(err)
		if !bytes.HasPrefix(png, []byte("\x89PNG\r\n\x1a\n")) {
			fail("an image that is no PNG")
		}
		return map[string][2]uint32{"image": {binary.BigEndian.Uint32(png[16:]), binary.BigEndian.Uint32(png[20:])}}
	}
	fail(fmt.Sprintf("an item of an unknown kind: %.200s", fmt.Sprint(found)))
	return nil
}

func check(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(reason string) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(1)
}
