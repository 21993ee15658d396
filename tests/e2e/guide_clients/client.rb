# A client of the guide's kind in Ruby: `ruby client.rb TASK.json`. See client.mjs, which is the same.

require 'json'
require 'net/http'
require 'securerandom'

GIVES_UP_S = 30
PNG = %r{\Adata:image/png;base64,(iVBORw0KGgo[A-Za-z0-9+/]+={0,2})\z}

def execute(url, token, session_id, call)
  request = Net::HTTP::Post.new(url, 'Content-Type' => 'application/json', 'Authorization' => "Bearer #{token}")
  request.body = JSON.generate(session_id: session_id, language: call['language'], code: call['code'].join("\n"))
  response = Net::HTTP.start(url.host, url.port, nil, read_timeout: GIVES_UP_S) { |http| http.request(request) }
  abort "status #{response.code}: #{response.body}" unless response.code == '200'
  answer = JSON.parse(response.body)
  output = answer['output']
  abort "no list of outputs: #{answer.to_s[0, 200]}" unless answer.keys == ['output'] && output.is_a?(Array) && output.any?
  output
end

def told(item)
  case item
  in { type: 'input_text', text: String => text, **nil }
    text
  in { type: 'input_image', image_url: PNG => url, detail: 'original', **nil }
    { image: PNG.match(url)[1].unpack1('m').byteslice(16, 8).unpack('N2') }
  else
    abort "an item of an unknown kind: #{item.to_s[0, 200]}"
  end
end

url = URI.join(ENV.fetch('OPENAI_EXAMPLE_CODE_EXECUTION_URL'), '/execute')
token = ENV.fetch('OPENAI_EXAMPLE_CODE_EXECUTION_TOKEN')
session_id = SecureRandom.uuid
$stdout.sync = true

JSON.parse(File.read(ARGV[0])).each do |call|
  items = execute(url, token, session_id, call)
  puts JSON.generate(items.map { |item| told(item.transform_keys(&:to_sym)) })
end
